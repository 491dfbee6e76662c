"""What live tests share."""

from live_tests import as_ordinary_user, in_lab, recorded, undisturbed, was_late

__all__ = ["as_ordinary_user", "in_lab", "recorded", "undisturbed", "was_late"]

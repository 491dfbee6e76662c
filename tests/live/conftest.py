"""What live tests share."""

from live_tests import _namespaces, as_ordinary_user, cannot_tell, in_lab, undisturbed, was_late

__all__ = ["_namespaces", "as_ordinary_user", "cannot_tell", "in_lab", "undisturbed", "was_late"]

"""What live tests share."""

from live_tests import _namespaces

__all__ = ["_namespaces"]

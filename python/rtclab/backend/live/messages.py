"""What the processes, pages and servers of a live call send each other."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
"""A JSON object."""
Message = dict[str, Any]
"""A JSON message from or to a page or a server. ``type`` is its kind."""

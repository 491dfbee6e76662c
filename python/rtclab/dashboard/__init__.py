"""The page of ``rtclab run --watch`` and ``rtclab watch``: what happens in a run, as it happens.

The server reads the file ``watch.jsonl`` of the run and passes its lines to the page. The same page with all
lines in it stays in the run as ``watch.html``.
"""

from rtclab.dashboard.page import PAGE_FILE, can_be_watched
from rtclab.dashboard.server import Dashboard

__all__ = ["PAGE_FILE", "Dashboard", "can_be_watched"]

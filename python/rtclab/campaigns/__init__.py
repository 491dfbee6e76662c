"""Runs many scenarios on one backend, in shuffled order and resumable; keeps what was measured as rows.

``rtclab.campaign`` runs the repeats of one scenario and keeps their traces. A campaign here runs repeats of
many scenarios, marks those that the machine disturbed and runs them again, and appends what was measured to
one CSV file as soon as a repeat has ended.
"""

from rtclab.campaigns.disturbance import MAX_TRIES, disturbances
from rtclab.campaigns.order import Item, encoders_at_once, items_of, shuffled
from rtclab.campaigns.rows import Key, Record, RowFile
from rtclab.campaigns.runner import Campaign, Tally

__all__ = [
    "MAX_TRIES",
    "Campaign",
    "Item",
    "Key",
    "Record",
    "RowFile",
    "Tally",
    "disturbances",
    "encoders_at_once",
    "items_of",
    "shuffled",
]

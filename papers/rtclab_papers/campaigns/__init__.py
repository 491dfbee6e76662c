"""Runs many scenarios on one backend, in shuffled order and resumable; keeps the measurements as rows.

An experiment keeps the values of metrics in a store of its own. A campaign runs repeats of many scenarios,
marks and repeats the ones that the machine disturbed, and appends the measurements to one CSV file as soon as
a repeat has ended.
"""

from rtclab.experiment import MAX_TRIES, disturbances
from rtclab_papers.campaigns.order import Item, encoders_at_once, items_of, shuffled
from rtclab_papers.campaigns.rows import Key, Record, RowFile
from rtclab_papers.campaigns.runner import Campaign, Tally

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

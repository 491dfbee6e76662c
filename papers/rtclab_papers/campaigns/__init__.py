"""Campaigns: an experiment of the laboratory whose values are published as rows of a CSV file.

The store of the experiment has everything that a repeat left. The rows are the part that is published: pages
are made from them where nothing has run, and a repeat that has a current row does not run again.
"""

from rtclab_papers.campaigns.campaign import LIVE, SIM, Campaign, Tally, run_both
from rtclab_papers.campaigns.rows import Key, Record, RowFile, samples

__all__ = ["LIVE", "SIM", "Campaign", "Key", "Record", "RowFile", "Tally", "run_both", "samples"]

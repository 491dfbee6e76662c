"""Scenarios: the conditions of published papers, and calls that are compared with real browsers."""

from __future__ import annotations

PAPERS = {
    "singh2013": "Performance analysis of receive-side real-time congestion control for WebRTC",
    "abello2013": "Performance analysis of topologies for Web-based real-time communication",
    "jansen2017": "Performance evaluation of WebRTC-based video conferencing",
    "iqbal": "A dynamic approach to estimate receiving bandwidth for WebRTC",
}
"""The titles of the papers by their short names, which are the names of the folders here."""

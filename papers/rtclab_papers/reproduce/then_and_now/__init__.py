"""Then and now: papers' conditions simulated as of their time and as of 2026, and live with browsers of 2026.

All write rows into one CSV file, and the page is made from these rows alone.
"""

"""Accounts of a trace that add up: what limited the rate, where packets were lost, what each freeze was, and
where pictures waited. See docs/why.md."""

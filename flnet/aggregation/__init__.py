"""Aggregation rules, and the screening of updates before them."""

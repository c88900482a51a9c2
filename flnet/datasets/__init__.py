"""Data set formats, splits, partitions, imports, and trainers without code."""

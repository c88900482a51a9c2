"""Federated algorithms, one paper a file: the local half and the aggregation half of each."""

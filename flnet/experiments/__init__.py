"""Experiments: tables of papers, from the code that a node runs, by one command."""

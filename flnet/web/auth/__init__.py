"""Admission of requests: who may call what, from where, and how often."""

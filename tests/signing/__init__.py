"""Tests of flnet.signing."""

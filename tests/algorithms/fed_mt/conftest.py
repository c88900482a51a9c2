"""Fixtures that tests of this folder share with others."""

from __future__ import annotations

from tests.compute.conftest import as_it_was  # noqa: F401

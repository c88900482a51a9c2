"""The texts of the further pages (models, prediction, data, settings) in Spanish."""

from __future__ import annotations

from collections.abc import Mapping

SPANISH: Mapping[str, str] = {}

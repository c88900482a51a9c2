"""A job without a source of chance says so as soon as a rule wants to draw lots."""

from __future__ import annotations

import pytest

from flnet.errors import IllegalStep
from flnet.jobs.chance import NoChance


def test_chance_that_was_not_passed_in_is_a_mistake_in_the_program() -> None:
    with pytest.raises(IllegalStep, match="seeded source of chance"):
        NoChance().random()

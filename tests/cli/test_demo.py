from __future__ import annotations

from collections.abc import Callable

from click.testing import Result


def test_nothing_can_be_compared_without_rounds(flnet: Callable[..., Result]) -> None:
    refused = flnet("demo", "--alone", "--rounds", "0")
    assert refused.exit_code == 2
    assert "--rounds must be 1 or more" in refused.output

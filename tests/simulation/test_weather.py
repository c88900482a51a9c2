"""Weather: what counts as calm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flnet.simulation import Weather


def test_fine_weather_is_calm_also_with_broken_trainings_and_doubled_messages() -> None:
    assert Weather().is_calm
    assert Weather(fail_training=0.5, duplicate=0.5, training=(9.0, 99.0)).is_calm


@pytest.mark.parametrize(
    "fault",
    [
        {"lose_request": 0.01},
        {"lose_reply": 0.01},
        {"corrupt": 0.01},
        {"delay": (0.0, 0.3)},
        {"saving": (0.0, 0.5)},
    ],
)
def test_what_may_make_a_probe_fail_is_not(fault: dict[str, float]) -> None:
    assert not replace(Weather(), **fault).is_calm  # type: ignore[arg-type]

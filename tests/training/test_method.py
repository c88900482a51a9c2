"""What the settings of a method say, in numbers."""

from __future__ import annotations

import pytest

from flnet.training.method import Method


@pytest.mark.parametrize(
    ("local", "mu"), [("plain", 0.0), ("proximal", 0.01), ("proximal:0.5", 0.5), ("proximal:0", 0.0)]
)
def test_the_proximal_term_has_a_number(local: str, mu: float) -> None:
    assert Method(local).mu == mu


@pytest.mark.parametrize(
    ("personal", "share", "optimiser"),
    [
        ("apfl", (0.5, 1e-4), ""),
        ("apfl:0.25", (0.25, 1e-4), ""),
        ("apfl:0.25:0.01", (0.25, 0.01), ""),
        ("apfl:0.25:0.01:adam", (0.25, 0.01), "adam"),
    ],
)
def test_apfl_begins_as_it_is_told(personal: str, share: tuple[float, float], optimiser: str) -> None:
    method = Method(personal=personal)
    assert (method.kind, method.share, method.optimiser) == ("apfl", share, optimiser)


def test_an_increment_trains_for_the_epochs_of_the_round_or_its_own() -> None:
    assert Method(personal="increment").epochs is None
    assert Method(personal="increment:5").epochs == 5
    assert Method(personal="increment:5").kind == "increment"


def test_without_words_a_method_is_the_trainers_own() -> None:
    assert (Method().mu, Method().kind, Method().controls) == (0.0, "none", False)
    assert Method(**Method("proximal:1", "apfl", "local", True).fields()) == Method(
        "proximal:1", "apfl", "local", True
    )

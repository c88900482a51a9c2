"""What is added to the common model, and how it is found again."""

from __future__ import annotations

import numpy as np

from flnet.personal import increment_of, raised

COMMON = {"w": np.array([1.0, 2.0]), "variance": np.array([0.5]), "count": np.array([7])}
LOCAL = {"w": np.array([1.5, 1.0]), "variance": np.array([0.2]), "count": np.array([9])}


def test_the_increment_leads_from_the_common_model_to_the_local_one() -> None:
    increment = increment_of(LOCAL, COMMON, ("w",))
    assert increment["w"].tolist() == [0.5, -1.0]
    assert raised(COMMON, increment)["w"].tolist() == [1.5, 1.0]
    assert raised(COMMON, increment)["count"].tolist() == [7]


def test_it_is_carried_over_to_the_next_common_model() -> None:
    increment = increment_of(LOCAL, COMMON, ("w",))
    assert raised({"w": np.array([10.0, 10.0])}, increment)["w"].tolist() == [10.5, 9.0]


def test_what_is_kept_whole_never_depends_on_the_common_model() -> None:
    increment = increment_of(LOCAL, COMMON, ("w", "variance"), kept=("variance",))
    fallen = {**COMMON, "variance": np.array([0.1])}
    assert raised(fallen, increment, kept=("variance",))["variance"].tolist() == [0.2]


def test_an_increment_of_zero_changes_nothing() -> None:
    zero = {"w": np.zeros(2)}
    assert raised(COMMON, zero)["w"].tolist() == COMMON["w"].tolist()

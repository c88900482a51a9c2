"""What FLNET_LABELS names, and which labels rows of a published data set carry by it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flnet.errors import SettingsError
from flnet.labels import Correspondence, Labelling
from flnet.node import build_node
from flnet.settings import Settings
from flnet.training.labelling import carried, labels_of
from tests.labels.spaces import COARSE, FINE, NESTED

SPACES = 'id = "two"\nclasses = ["a", "b"]\n{}[desired]\nid = "three"\nclasses = ["x", "y", "z"]\n'
MAPPING = '[mapping]\na = ["x"]\nb = ["y", "z"]\n'
KNOWN = Labelling(COARSE, FINE, Correspondence(FINE, COARSE, NESTED))
TRUTH = np.repeat([0, 1, 2], [60, 30, 10])


def chance() -> np.random.Generator:
    return np.random.default_rng(0)


def test_without_the_setting_there_is_nothing_to_say() -> None:
    assert labels_of(Settings()) is None


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "labels.toml"
    path.write_text(SPACES.format("steps = 5\n") + MAPPING)
    found = labels_of(Settings(labels=path))
    assert found is not None
    assert (found.steps, found.is_desired) == (5, False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read"),
        ("id = 3", "id"),
        (SPACES.format(""), "nobody says how the classes of 'two' correspond to those of 'three'"),
        (SPACES.format('schedule = "pipelined"\n') + MAPPING, "schedule"),
    ],
)
def test_a_node_does_not_start_with_labels_that_say_too_little(
    tmp_path: Path, text: str | None, words: str
) -> None:
    path = tmp_path / "labels.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingsError, match="FLNET_LABELS=") as caught:
        build_node(Settings(labels=path, state_path=tmp_path / "state"))
    assert words in caught.value.message


def test_coarse_rows_carry_the_class_in_which_theirs_lies() -> None:
    fine, coarse = carried(KNOWN, TRUTH, chance())
    assert set(fine.tolist()) == {-1}
    assert coarse.tolist() == np.where(TRUTH == 0, 0, 1).tolist()


def test_where_spaces_overlap_labels_are_drawn_by_the_weights() -> None:
    half = replace(KNOWN, correspondence=Correspondence(FINE, COARSE, [[1, 0, 0.25], [0, 1, 0.75]]))
    _, coarse = carried(half, np.repeat([0, 1, 2], 4000), chance())
    shares = [float((coarse[at : at + 4000] == 0).mean()) for at in (0, 4000, 8000)]
    assert shares[:2] == [1, 0]
    assert shares[2] == pytest.approx(0.25, abs=0.03)


def test_a_few_labels_are_spread_over_the_classes() -> None:
    fine, coarse = carried(Labelling(FINE, rows=40), TRUTH, chance())
    assert np.bincount(fine[fine >= 0], minlength=3).tolist() == [15, 15, 10]
    assert set(coarse.tolist()) == {-1}
    everything, _ = carried(Labelling(FINE, rows=1000), TRUTH, chance())
    assert everything.tolist() == TRUTH.tolist()


def test_a_node_may_have_labels_of_both_spaces() -> None:
    fine, coarse = carried(replace(KNOWN, rows=6), TRUTH, chance())
    assert (fine >= 0).sum() == 6
    assert (coarse >= 0).all()

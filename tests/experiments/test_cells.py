"""Cells are identified by what decides their numbers, and their outcomes are kept for the next run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from flnet.errors import LocalError
from flnet.experiments.cells import FILE, Cell, Outcome, Results, Setup, batches, in_all
from flnet.protocol.counts import EvaluationCounts
from flnet.trainer import Method

DONE = Outcome(rounds=1, figures={"after.accuracy": (0.1 + 0.2, None)}, seconds=1.5)
NO_DATA = Outcome(reason="no data")


def cell(seed: int = 0, row: str = "r", **fields: object) -> Cell:
    return Cell(row=row, column="c", seed=seed, setup=Setup.model_validate({"trainer": "MNIST", **fields}))


def test_a_key_depends_on_what_decides_the_numbers_and_on_nothing_else() -> None:
    assert cell().key == cell(row="another place").key == cell(together=8, needs=("mnist",)).key
    assert cell().key == cell(nodes=10).key  # the default
    different = [cell(), cell(1), cell(nodes=9), cell(options={"noise": "none"}), cell(hostile=1)]
    different.append(cell(attack="sign-flip", hostile=1))
    assert len({each.key for each in different}) == len(different)


def test_fields_without_effect_on_lone_and_central_nodes_are_not_part_of_a_key() -> None:
    mesh: dict[str, Any] = {"aggregation": "agg0", "participation": 0.5, "exchange": True, "attack": "sign-flip"}
    parts: dict[str, Any] = {"nodes": 4, "partition": "dirichlet:0.1"}
    assert cell(kind="lone", **mesh).key == cell(kind="lone").key
    assert cell(kind="lone", **parts).key != cell(kind="lone").key
    assert cell(kind="central", **mesh, **parts).key == cell(kind="central").key
    assert len({cell(**mesh).key, cell(**parts).key, cell(kind="lone").key, cell(kind="central").key}) == 4


def test_a_central_node_has_parts_only_if_it_is_measured_at_them() -> None:
    parts: dict[str, Any] = {"nodes": 4, "partition": "dirichlet:0.1", "parts": True}
    assert cell(parts=True).key == cell().key
    keys = [cell(kind="central", **parts).key, cell(kind="central", **{**parts, "nodes": 5}).key]
    keys += [cell(kind="central").key, cell(kind="central", drift="shares:0.5", **parts).key]
    assert len(set(keys)) == 4
    with pytest.raises(ValidationError, match="it needs parts = true"):
        cell(kind="central", drift="shares:0.5")


def test_keys_stay_the_same_so_that_finished_cells_are_found() -> None:
    setup: dict[str, Any] = {
        "trainer": "MULTI_LABEL",
        "nodes": 4,
        "until": "mlfedavg cumulative",
        "partition": "dirichlet:0.30",
        "options_file": "multi_label.toml",
        "options": {"deal": [4, 3]},
    }
    key = "9fdbabfbc96f397499889d0dc767ec8c1a94694bfb88b443f36a7944c156e607"
    assert cell(3, **setup).key == key


def test_a_cell_survives_json() -> None:
    before = cell(3, options={"deal": [3, 3]}, until="accuracy>=0.9", curves=("after.f1_macro",))
    after = Cell.model_validate_json(before.model_dump_json())
    assert (after, after.key) == (before, before.key)


@pytest.mark.parametrize(
    "wrong",
    [
        {"trainer": "../MNIST"},
        {"nodes": 0},
        {"partition": "dirichlet"},
        {"partition": "pathological:2.5"},
        {"until": "it is good"},
        {"aggregation": "agg3"},
        {"rate": float("nan")},
        {"participation": 0},
        {"attack": "bribe"},
        {"hostile": -1},
        {"drift": "shares"},
        {"drift": "rows:0.5"},
        {"drift": "labels:0.5", "topology": "cyclic"},
        {"personal_model": "mine"},
        {"options_file": "../a.toml"},
        {"labels": {"id": "pairs", "stepps": 3}},
        {"unknown": 1},
    ],
)
def test_a_wrong_setup_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Setup.model_validate({"trainer": "MNIST", **wrong})


def test_a_setup_says_what_is_done_around_trainings() -> None:
    assert cell().setup.method == Method()
    setup = cell(local_training="proximal:0.1", personal_model="increment:2").setup
    assert setup.method == Method("proximal:0.1", "increment:2")


def test_a_figure_is_combined_over_the_nodes_that_have_it() -> None:
    outcome = Outcome(rounds=3, figures={"after.accuracy": (0.5, None, 0.75)}, bytes=12)
    assert [outcome.value("after.accuracy", over) for over in ("mean", "min", "max")] == [0.625, 0.5, 0.75]
    assert outcome.value("after.accuracy", "deviation") == pytest.approx(0.125 * 2**0.5)
    assert Outcome(figures={"after.accuracy": (0.5, None)}).value("after.accuracy", "deviation") is None
    assert (outcome.value("bytes"), outcome.value("after.loss")) == (12, None)
    assert Outcome(reason="no data", bytes=12).value("bytes") is None
    assert outcome.value("after.answered_accuracy") == 0.625  # the only model answers
    assert [outcome.value("after.accuracy", over) for over in (1, 2, 3, 4, "others")] == [
        0.5,
        None,
        0.75,
        None,
        0.75,
    ]
    personal = {**outcome.figures, "after.answered_accuracy": (0.8, None, None)}
    assert Outcome(figures=personal).value("after.answered_accuracy") == 0.8


def test_a_figure_may_be_that_of_a_group_of_nodes() -> None:
    figures = {
        "node.rows": (90.0, 10.0, 50.0, 20.0, 80.0, 40.0, 70.0),  # sevenths: small 1 3 5, middle 2 6, large 4 0
        "node.unlikeness": (0.0, 0.6, 0.1, 0.2, 0.3, 0.4, 0.5),
        "node.drifts": (0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0),
        "after.accuracy": (0.0, 1.0, 2.0, 3.0, 4.0, None, 6.0),
    }
    outcome = Outcome(
        rounds=2, figures=figures, curves={"after.accuracy": tuple((0.0, float(n)) for n in range(7))}
    )
    assert [outcome.members([size], 7) for size in ("small", "middle", "large")] == [[1, 3, 5], [2, 6], [0, 4]]
    assert outcome.members(["small", "unlike"], 7) == [1]
    assert outcome.value("after.accuracy", nodes=["small"]) == 2.0
    assert outcome.value("after.accuracy", "max", ["steady"]) == 6.0
    assert outcome.value("after.accuracy", nodes=["middle", "alike"]) == 2.0
    assert outcome.value("after.accuracy", nodes=["large", "unlike"]) is None
    assert outcome.course("after.accuracy", ["drifting"]) == {1: 0.0, 2: 2.0}
    assert Outcome(figures={"after.accuracy": (0.5, 0.7)}).value("after.accuracy", nodes=["small"]) is None


def test_a_course_is_the_mean_over_the_nodes_by_round() -> None:
    curves = {"after.accuracy": ((0.5, None, 0.25), (1.0, None, None))}
    course = Outcome(rounds=3, curves=curves).course("after.accuracy")
    assert course == {1: 0.75, 3: 0.25}  # a round without a figure keeps its number
    assert Outcome().course("after.accuracy") == {}
    assert in_all([course, {1: 0.5, 2: 0.6}, {1: 1.0}]) == {1: [0.75, 0.5, 1.0]}
    assert in_all([]) == {}


def test_seeds_of_one_setup_are_trained_together() -> None:
    three = [cell(seed, together=2) for seed in (0, 1, 2)]
    assert batches(three) == [(three[0], three[1]), (three[2],)]
    assert batches(three[1:]) == [(three[1],), (three[2],)]  # independent of what is done already
    assert batches([cell(0), cell(1)]) == [(cell(0),), (cell(1),)]
    mixed = [cell(0, together=2), cell(0, together=2, nodes=3), cell(1, together=2)]
    assert batches(mixed) == [(mixed[0], mixed[2]), (mixed[1],)]


# Results.


def test_results_of_an_earlier_run_are_found_and_failed_cells_are_run_again(tmp_path: Path) -> None:
    one, two, three = cell(0), cell(1), cell(2)
    first = Results(tmp_path / "new" / "folder")
    assert first.missing([one, one, two]) == [one, two]
    first.add([(one, NO_DATA), (two, NO_DATA)])
    first.add([(one, DONE)])
    again = Results(tmp_path / "new" / "folder")
    assert again.get(one) == first.get(one) == DONE  # to the last bit
    assert (again.get(two), again.get(three), len(again)) == (NO_DATA, None, 2)
    assert again.missing([one, two, three]) == [two, three]


@pytest.mark.parametrize(("cut", "is_lost"), [(1, False), (20, True), (200, True)])
def test_a_torn_line_is_skipped_and_spoils_no_other(tmp_path: Path, cut: int, is_lost: bool) -> None:
    one, two, three = cell(0), cell(1), cell(2)
    Results(tmp_path).add([(one, DONE), (two, DONE)])
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:-cut])
    results = Results(tmp_path)
    assert results.missing([one, two]) == [two] * is_lost
    results.add([(three, DONE)])
    assert Results(tmp_path).missing([one, two, three]) == [two] * is_lost


def test_results_whose_keys_have_changed_do_not_count(tmp_path: Path) -> None:
    Results(tmp_path).add([(cell(), DONE)])
    path = tmp_path / FILE
    path.write_text(path.read_text("utf-8").replace(cell().key, "0" * 64), "utf-8")
    assert Results(tmp_path).missing([cell()]) == [cell()]


def test_a_folder_that_cannot_be_used_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(LocalError, match="results cannot be kept"):
        Results(tmp_path / "file" / "folder")


def counted(right: int, examples: int) -> EvaluationCounts:
    """Counts of two classes; rows of the first one are right, and so are those of the second beyond `right`."""
    wrong = examples - right
    return EvaluationCounts(
        right=right,
        examples=examples,
        tp=(right, 0),
        fp=(wrong, 0),
        fn=(0, wrong),
        tn=(0, right),
    )


def unequal(**fields: Any) -> Outcome:
    """A node with 10 rows that are all right, and one with 200 of which 150 are; a third one had no part in the round."""
    given: dict[str, Any] = {
        "rounds": 2,
        "figures": {
            "after.accuracy": (1.0, 0.75, None),
            "after.f1_macro": (0.5, 0.43, None),
            "node.rows": (20.0, 400.0, 100.0),
        },
        "counts": {"after": (counted(10, 10), counted(150, 200), None)},
        "curves": {"after.accuracy": ((0.5, 1.0), (0.5, 0.75), (None, None))},
        "right": {"after.accuracy": (((5, 10), (10, 10)), ((100, 200), (150, 200)), (None, None))},
    }
    return Outcome(**{**given, **fields})


def test_over_all_rows_a_large_node_weighs_more_than_a_small_one() -> None:
    """The mean of nodes is 0.875; of 210 rows 160 are right, 0.762: more than 0.1 less."""
    outcome = unequal()
    assert outcome.value("after.accuracy") == 0.875
    assert outcome.value("after.accuracy", "rows") == 160 / 210
    assert outcome.value("after.answered_accuracy", "rows") == 160 / 210
    assert outcome.value("after.accuracy", "rows", ["small"]) == 1.0
    assert outcome.value("after.accuracy", "rows", ["middle"]) is None  # the third node has no figure
    assert outcome.value("after.accuracy", "rows", ["large"]) == 0.75
    f1_of_first = 2 * 160 / (2 * 160 + 50)
    assert outcome.value("after.f1_macro", "rows") == pytest.approx(f1_of_first / 2)
    assert outcome.course("after.accuracy", over="rows") == {1: 105 / 210, 2: 160 / 210}
    assert outcome.course("after.accuracy", ["large"], "rows") == {1: 0.5, 2: 0.75}
    other = unequal(curves={"after.accuracy": ((0.5, 1.0), (0.5, 0.75), (0.9, None))})
    assert other.course("after.accuracy", over="rows") == {2: 160 / 210}  # a node did not count in the first round
    assert Outcome.model_validate_json(outcome.model_dump_json()) == outcome


def test_without_counts_there_is_no_figure_over_all_rows_but_a_reason() -> None:
    some = unequal(counts={"after": (counted(10, 10), None, None)})
    none = unequal(counts={}, right={})
    for outcome in (some, none):
        assert outcome.value("after.accuracy", "rows") is None
    assert "some nodes do not count" in some.why_not_over_rows("after.accuracy")
    assert "a new folder does them again" in none.why_not_over_rows("after.accuracy")
    assert none.course("after.accuracy", over="rows") == {}
    assert none.why_not_over_rows("after.loss") == ""
    personal = unequal(figures={"after.answered_accuracy": (1.0, 0.8, None)})
    assert personal.value("after.answered_accuracy", "rows") is None  # of another model than the counts

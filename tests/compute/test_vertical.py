"""Vertical trainers behind the verbs of a compute queue: whole epochs of several nodes, message by message."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.compute.assignment import Assignment
from flnet.compute.channel import pack, unpack
from flnet.compute.in_process import InProcessBackend
from flnet.compute.verbs import FitRequest, OpenEpochRequest, PredictRequest, PrepareRequest, TurnRequest
from flnet.compute.vertical import Opened, VerticalHost, VerticalTurn
from flnet.errors import NotOffered, TrainerError
from flnet.params.params import Params
from flnet.protocol.messages import HyperParams
from flnet.protocol.vertical import BeginPart, PositionPart
from flnet.rounds.vertical_models import agreed_in_flight
from flnet.rounds.vertical_round import UNTOLD
from flnet.trainer import TrainerFile, TrainerSettings
from flnet.vertical_trainer import GradientDefence, KeyHolderTrainer, OutputDefence, VerticalTrainer
from tests.algorithms.vertical.encrypted_holders import RegressionTable
from tests.algorithms.vertical.holders import People, Table, trained_alone

HYPER = HyperParams(e=1, u=0.05, b=16)
SEED = 11


class Job:
    """The parts of a job that these tests need: it carries messages between hosts, in a random order of nodes."""

    def __init__(self, hosts: Mapping[str, VerticalHost]) -> None:
        self.backends = {node: InProcessBackend(lambda given: hosts[given.file.id]) for node in hosts}
        self.states: dict[str, VerticalTurn] = {}
        self.turns: dict[str, list[VerticalTurn]] = {node: [] for node in hosts}
        self.sent: list[tuple[str, Mapping[str, Any]]] = []  # sender and message, of all epochs
        self.rows: dict[str, Any] = {}
        self.closed, self.params, self.own = -1, dict.fromkeys(hosts, Params()), dict[str, Any]()
        self.alignment = ""

    def ask(self, node: str, request: Any) -> Any:
        """A call, with what the training child's channel does to request and result."""
        arrays: list[Any] = []
        sent = unpack(pack(request, arrays), arrays)
        result = self.backends[node].call(Assignment(TrainerFile(node, ""), TrainerSettings(None, Path())), sent)
        arrays = []
        return unpack(pack(result, arrays), arrays)

    def positions(self) -> dict[str, PositionPart]:
        made = {}
        for node in self.backends:
            fields = dict(self.ask(node, PrepareRequest()).declaration.offers["vertical"])
            for name in UNTOLD:
                fields.pop(name)
            made[node] = PositionPart(**fields, number=-1)
        return made

    def epoch(self, *, aligns: bool, chance: random.Random | None = None) -> None:
        chance = chance or random.Random(0)
        holders = self.positions()
        in_flight = agreed_in_flight(holders)
        begin = BeginPart(
            holders=holders, closed=self.closed, aligns=aligns, seed=SEED, in_flight=in_flight
        ).as_dict()
        waiting: dict[str, list[Any]] = {node: [] for node in self.backends}
        ends: dict[str, str] = {}
        for node in self.backends:
            known: dict[str, Any] = (
                {"rows": self.rows.get(node), "alignment": self.alignment} if not aligns else {}
            )
            opened = Opened(node, f"s{self.closed}", begin, HYPER, self.params[node], self.own.get(node), **known)
            self.take(node, self.ask(node, OpenEpochRequest(opened)), waiting, ends)
        while set(ends.values()) != {"closed"}:
            ready = [n for n in waiting if waiting[n] or (self.turns[n] and self.turns[n][-1].more)]
            node = chance.choice(ready)
            received, waiting[node] = waiting[node], []
            self.take(node, self.ask(node, TurnRequest(f"s{self.closed}", received)), waiting, ends)
        self.closed += 1

    def take(self, node: str, turn: VerticalTurn, waiting: dict[str, list[Any]], ends: dict[str, str]) -> None:
        self.turns[node].append(turn)
        ends[node] = turn.stage
        self.sent += [(node, one) for one in turn.sent]
        for one in turn.sent:
            waiting[one["to"]].append({"sender": node, "part": one["part"], "arrays": one["arrays"]})
        if turn.params is not None:
            self.params[node] = Params({**self.params[node], **turn.params})
            self.own[node] = turn.own_report or self.own.get(node)
        if turn.rows is not None:
            self.rows[node], self.alignment = turn.rows, turn.alignment


@pytest.mark.parametrize(
    ("nodes", "labels"),
    [
        (("a", "b"), ("b",)),
        (("a", "b", "c"), ("a",)),
        (("a", "b", "c", "d"), ("c",)),
        (("a", "b", "c"), ("a", "c")),
    ],
)
def test_epochs_through_the_verbs_are_those_of_the_split_network(
    nodes: tuple[str, ...], labels: tuple[str, ...]
) -> None:
    people = People(nodes, labels)
    job = Job(people.hosts())
    job.epoch(aligns=True)
    job.epoch(aligns=False, chance=random.Random(7))
    job.epoch(aligns=True, chance=random.Random(3))
    alignment = job.alignment
    ids = {node: [people.tables[node].ids[row] for row in job.rows[node]] for node in nodes}
    assert sorted(ids["a"]) == [f"P{number:03}" for number in range(60)]
    assert all(ids[node] == ids["a"] for node in nodes)
    job = Job(people.hosts())
    job.rows, job.alignment = {node: np.array(rows) for node, rows in job.rows.items()}, alignment
    job.epoch(aligns=True)
    job.epoch(aligns=False)
    job.epoch(aligns=False)
    alone = trained_alone(people.tables, job.rows, job.alignment, SEED, HYPER, 3)
    for node, params in job.params.items():
        bottom = alone[node].features.bottom.state().digest  # type: ignore[index, union-attr]
        weights = {name: array for name, array in params.items() if name.startswith("bottom/")}
        assert weights
        assert [t.bottom for t in job.turns[node] if t.bottom][-1] == bottom
        if node in labels:
            assert job.own[node]["top"] == alone[node].labels.top.state().digest  # type: ignore[index, union-attr]
            assert job.own[node]["score"]["examples"] == 12


def test_the_score_is_told_to_all_and_gets_better() -> None:
    people = People(common=200)
    job = Job(people.hosts())
    job.epoch(aligns=True)
    for _ in range(15):
        job.epoch(aligns=False)
    reports = [turn.report for turn in job.turns["a"] if turn.report]
    assert len(reports) == 16
    assert reports[-1]["loss"] < 0.6 * reports[0]["loss"]
    assert reports[-1]["score"]["metrics"]["auc"] > 0.9


def test_other_verbs_say_that_one_node_alone_can_do_nothing() -> None:
    job = Job(People().hosts())
    for request in (FitRequest(Params(), HYPER, 0), PredictRequest(Params(), np.zeros((1, 2)))):
        with pytest.raises(NotOffered):
            job.ask("a", request)


def refusal(table: VerticalTrainer) -> str:
    job = Job({"a": VerticalHost(table, "a", People().hosts()["a"]._group)})
    with pytest.raises(TrainerError) as caught:
        job.ask("a", PrepareRequest())
    return str(caught.value)


X = np.array([[1.0, 2.0], [2.0, 5.0], [3.0, 1.0]], np.float32)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (Table(["x", "y", " X "], X), "1 of 3 ids repeat the id of an earlier row"),
        (Table(["x", "y", 7], X), "2 are text and 1 numbers"),
        (Table(["x", "y", "z"], np.where(X > 4, np.nan, X)), "missing values"),
        (Table(["x", "y", "z"], X * [1, 0]), "feature column 2 has the same value in all rows"),
        (Table(["x", "y", "z"], X, np.ones(3, int)), "one value only"),
        (Table(["x", "y", "z"], X, np.array([0, 1, np.nan])), "label column has missing values"),
        (Table(["x", "y", "z"], None), "neither a feature column nor a label column"),
    ],
)
def test_data_that_cannot_be_used_are_refused_before_anything_is_sent(table: Table, words: str) -> None:
    refused = refusal(table)
    assert words in refused
    assert "P0" not in refused


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"in_flight": 0}, "expected in_flight from 1 to 64, got 0"),
        ({"in_flight": 65}, "expected in_flight from 1 to 64, got 65"),
        ({"in_flight": 2.0}, "expected in_flight from 1 to 64, got 2.0"),
        ({"gradient_noise": GradientDefence("max-norm")}, "gradient_noise is for nodes with a label"),
        ({"tells_score": False}, "tells_score is for nodes with a label"),
        (
            {"x": None, "y": np.array([0, 1, 0]), "output_noise": OutputDefence(1.0, 1.0)},
            "output_noise protects outputs",
        ),
    ],
)
def test_a_setting_that_has_no_effect_or_is_out_of_range_is_refused(changed: dict[str, Any], words: str) -> None:
    table = Table(["x", "y", "z"], X)
    vars(table).update(changed)
    assert words in refusal(table)


@pytest.mark.parametrize(
    "changed",
    [
        {"output_noise": OutputDefence(1.0, 1.0)},
        {"gradient_noise": GradientDefence("max-norm")},
        {"tells_score": False},
        {"in_flight": 2},
    ],
)
def test_settings_of_a_split_network_are_refused_where_a_regression_is_encrypted(changed: dict[str, Any]) -> None:
    """They would have no effect there, and people would see defences that there are not."""
    table = Table(["x", "y", "z"], X, np.array([0, 1, 1]))
    vars(table).update(changed, method="encrypted-regression")
    (name,) = changed
    assert refusal(table) == f"{name} is no option of method = encrypted-regression"


def test_predictions_that_would_tell_what_is_hidden_are_refused_before_any_training() -> None:
    table = RegressionTable(["x", "y", "z"], X, np.array([0, 1, 1]))
    table.hides_matches = table.allows_predictions = True
    assert refusal(table) == "allow_predictions would tell which rows match, and hides_matches = true hides that"
    key = KeyHolderTrainer()
    key.allows_predictions = True
    assert refusal(key) == "allow_predictions is for a node with data; a node with the key predicts nothing"


def test_an_epoch_without_common_ids_or_with_one_class_of_common_rows_ends_in_words() -> None:
    people = People()
    people.tables["a"].ids = [f"other {number}" for number in range(len(people.tables["a"].ids))]
    with pytest.raises(TrainerError, match="a, b have no id in common"):
        Job(people.hosts()).epoch(aligns=True)
    people = People()
    y = people.tables["b"].y
    assert y is not None
    y[:60], y[60:] = 0, 1  # those whom only b knows are different
    with pytest.raises(TrainerError, match="the label has one value only in the 48 common rows"):
        Job(people.hosts()).epoch(aligns=True)


def test_a_new_process_within_an_epoch_says_that_its_conversation_is_gone() -> None:
    job = Job(People().hosts())
    with pytest.raises(TrainerError, match="started again within the epoch"):
        job.ask("a", TurnRequest("s0", []))


def test_after_another_alignment_the_same_people_are_held_out() -> None:
    people = People()
    job = Job(people.hosts())
    held: list[set[str]] = []
    for _ in range(3):
        job.epoch(aligns=True)
        ids = people.tables["a"].ids
        held.append({ids[row] for row in job.rows["a"][:12]})
    assert len(held[0]) == 12
    assert held[0] == held[1] == held[2]

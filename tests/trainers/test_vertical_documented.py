"""The vertical trainer of docs/vertical.md is one: two nodes with different people and columns train it together."""

from __future__ import annotations

import importlib.util
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from flnet.algorithms.vertical.split_network import FeatureHolder, LabelHolder, SplitNode, run_epoch
from flnet.algorithms.vertical.split_plan import SplitPlan
from flnet.errors import NotOffered
from flnet.params.params import Array, PeerId
from flnet.trainer import HyperParams, TrainerSettings
from flnet.vertical_trainer import MakeVerticalTrainer, VerticalTrainer
from tests.algorithms.vertical.networks import Permuted, report_of
from tests.test_layout import ROOT

CODE = re.compile(r"<!-- vertical-trainer -->\n```python\n(?P<code>.*?)```", re.DOTALL)


@pytest.fixture
def make(tmp_path: Path) -> MakeVerticalTrainer:
    found = CODE.search((ROOT / "docs" / "vertical.md").read_text("utf-8"))
    assert found is not None
    path = tmp_path / "documented_vertical.py"
    path.write_text(found["code"], "utf-8")
    spec = importlib.util.spec_from_file_location("documented_vertical", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: MakeVerticalTrainer = module.make_vertical_trainer
    return made


def write_columns(folder: Path) -> None:
    """500 people; a has 450 of them and b 400, each in another order; the label depends on columns of both."""
    chance = np.random.default_rng(0)
    x = chance.normal(size=(500, 4))
    label = (x @ [1.0, -1.0, 1.0, -1.0] > 0).astype(int)
    for node, columns, people in (("a", (0, 1), 450), ("b", (2, 3), 400)):
        (folder / node).mkdir()
        head = f"id,x,z{',label' if node == 'b' else ''}\n"
        lines = [
            f"p{row},{x[row, columns[0]]},{x[row, columns[1]]}{f',{label[row]}' if node == 'b' else ''}\n"
            for row in chance.permutation(500)[:people]
        ]
        (folder / node / "mine.csv").write_text(head + "".join(lines), "utf-8")


def features_at(trainer: VerticalTrainer, places: Array, rows: Array) -> Array:
    """Features of common rows; `places` are their numbers at this node."""
    return trainer.features(places[rows])


def test_the_documented_vertical_trainer_trains(make: MakeVerticalTrainer, tmp_path: Path) -> None:
    write_columns(tmp_path)
    trainers = {PeerId(node): make(TrainerSettings(tmp_path / node, tmp_path)) for node in "ab"}
    common = sorted(set.intersection(*(set(trainer.identifiers()) for trainer in trainers.values())))
    assert 300 < len(common) < 400
    places = {
        peer: np.array([list(trainer.identifiers()).index(one) for one in common])
        for peer, trainer in trainers.items()
    }
    hyper = HyperParams(e=10, u=0.01, b=32)
    bottoms = {peer: trainer.bottom_model(seed, hyper) for seed, (peer, trainer) in enumerate(trainers.items())}
    widths = {peer: bottom.width for peer, bottom in bottoms.items() if bottom is not None}
    a, b = trainers
    plan = SplitPlan(widths, {b: None}, Permuted(len(common), hyper.b, 80))
    nodes = {peer: SplitNode(peer) for peer in trainers}
    for peer, bottom in bottoms.items():
        assert bottom is not None
        features = partial(features_at, trainers[peer], places[peer])
        nodes[peer].features = FeatureHolder(peer, plan, features, bottom)
    assert trainers[a].top_model(plan.width, 9, hyper) is None
    top = trainers[b].top_model(plan.width, 9, hyper)
    assert top is not None
    nodes[b].labels = LabelHolder(b, plan, trainers[b].labels(places[b]), top)
    for _ in range(hyper.e):
        run_epoch(nodes)
    score = report_of(nodes[b]).score
    assert score is not None and score.examples == 80
    assert score.accuracy > 0.9


def test_a_trainer_without_columns_or_labels_says_so() -> None:
    class Nothing(VerticalTrainer):
        def identifiers(self) -> list[str]:
            return []

    trainer, hyper = Nothing(), HyperParams(e=1, u=0.1, b=1)
    with pytest.raises(NotOffered, match="has no features"):
        trainer.features(np.arange(1))
    with pytest.raises(NotOffered, match="has no labels"):
        trainer.labels(np.arange(1))
    assert trainer.bottom_model(0, hyper) is None
    assert trainer.top_model(3, 0, hyper) is None
    assert trainer.data_info().rows == {}

"""Five real nodes that label digits differently train FedMT, also when the only one with fine labels is killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.processes.harness import Harness, RealNode, until

pytestmark = pytest.mark.slow
NAME, ROUNDS, FEW = "SMALL_DIGITS", 4, 2
DIGITS = [str(digit) for digit in range(10)]
DESIRED = f'[desired]\nid = "digits"\nclasses = {json.dumps(DIGITS)}\n'
SPACES = {
    "pairs": {"01": "01", "23": "23", "45": "45", "67": "67", "89": "89"},
    "halves": {"small": "01234", "large": "56789"},
}


def text(space: str) -> str:
    """The file of FLNET_LABELS for a node with this label space."""
    if space == "digits":
        return f'id = "digits"\nclasses = {json.dumps(DIGITS)}\nrows = 50\n'
    lies = SPACES[space]
    mapping = "".join(f'"{name}" = {json.dumps(list(digits))}\n' for name, digits in lies.items())
    return f'id = "{space}"\nclasses = {json.dumps(list(lies))}\n{DESIRED}[mapping]\n{mapping}'


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Harness]:
    made = Harness(tmp_path)
    try:
        for part, space in enumerate(("pairs", "pairs", "pairs", "halves", "digits"), start=1):
            path = tmp_path / f"labels-{part}.toml"
            path.write_text(text(space))
            made.start(
                TRAINERS=NAME,
                TRAINERS_PATH="",
                DATA_SHARD=f"{part}/5",
                LABELS=str(path),
                WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG="20",
                WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG_MARGIN="0",
            )
        made.ready()
        yield made
    finally:
        made.stop()


def has_rounds(node: RealNode, count: int) -> bool:
    return len(node.history(NAME)) >= count and node.job(NAME)["phase"] == "IDLE"


def test_nodes_of_three_label_spaces_train_one_model_and_outlive_the_one_with_fine_labels(mesh: Harness) -> None:
    *coarse, fine = mesh.nodes
    assert coarse[0].trigger(NAME, ROUNDS).status_code == 202
    for node in mesh.nodes:
        until(partial(has_rounds, node, ROUNDS), f"the last round of {node.name}")
    found = [node.history(NAME) for node in mesh.nodes]
    assert len({history[-1]["digest"] for history in found}) == 1
    for number, record in enumerate(found[0]):
        trained = set(record["contributors"])
        assert trained == ({fine.name} if number % 2 == 0 else {node.name for node in coarse})
    assert found[0][-1]["post_fedavg_accuracy"] > 0.5  # of five or two classes, by 2 x 20 steps

    assert coarse[0].trigger(NAME, FEW).status_code == 202
    until(lambda: coarse[0].job(NAME)["current_round"] >= ROUNDS, "the next series")
    fine.kill()
    for node in coarse:
        until(partial(has_rounds, node, ROUNDS + FEW), f"the last round of {node.name} without fine labels")
    assert len({node.history(NAME)[-1]["digest"] for node in coarse}) == 1
    see_both_label_spaces(coarse[3])


def see_both_label_spaces(node: RealNode) -> None:
    """What its people see: the correspondence, and predictions in the desired space and in its own."""
    seen = node.get(f"/jobs/{NAME}/labels")
    assert (seen["space"]["classes"], seen["estimated"]) == (["small", "large"], False)
    assert seen["matrix"] == [[1] * 5 + [0] * 5, [0] * 5 + [1] * 5]
    answer = node.http.post(f"/jobs/{NAME}/predict", json={"inputs": [[[0] * 8] * 8]}).json()
    chances, own = answer["probabilities"][0], answer["coarse"]["probabilities"][0]
    assert own == pytest.approx([sum(chances[:5]), sum(chances[5:])], abs=1e-5)

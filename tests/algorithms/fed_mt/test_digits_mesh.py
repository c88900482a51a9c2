"""FedMT's recipe on the bundled digits: 50 fine labels at one node, 10 -> 5 classes at four others.

What is printed and fails, and what flnet does in its place, as runs. The long ones take minutes:

    pytest tests/algorithms/fed_mt/test_digits_mesh.py -m long -s
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn, which brings the digits, is not installed")

from flnet.algorithms.fed_mt.estimation import WarmUp
from tests.algorithms.fed_mt.digits_mesh import (
    Mesh,
    Node,
    Recipe,
    accuracy,
    average,
    digits,
    fresh,
    nested,
    run,
)

SEEDS = range(5)
NO_WARM_UP = WarmUp(least=0, share=0)


def printed_round(mesh: Mesh, base: Any) -> Any:
    """Algorithm 1 to the letter: who has no confident row stops, and the average runs over the others alone."""
    fine, *others = mesh.nodes
    taught = mesh.trained(fine, base, fine.matrix)
    going_on = [node for node in others if mesh.guesses(node, taught).sure.any()]
    models = [mesh.trained(node, taught, node.matrix) for node in going_on]
    return average(models, [1 / len(models) for _ in models], base)


def mesh_of(seed: int, recipe: Recipe) -> tuple[Mesh, Any, Any]:
    nodes, x, y = digits(seed, nested())
    return Mesh(nodes, recipe, fresh(seed), np.random.default_rng([seed, 2])), x, y


def test_as_printed_a_mesh_of_unsure_nodes_never_learns() -> None:
    """Nobody is sure after four steps, so all stop, and what the fine node learnt is thrown away, for ever."""
    mesh, x, y = mesh_of(0, replace(Recipe(), steps=4))
    model = mesh.model
    for _ in range(6):
        model = printed_round(mesh, model)
    assert all((model[name] == value).all() for name, value in fresh(0).items())
    assert accuracy(model, x, y) < 0.3
    for number in range(6):  # the same steps, but the base stays where nobody answers
        mesh.round(number)
    assert accuracy(mesh.model, x, y) > 0.5


def test_a_phase_without_an_answer_leaves_the_model_as_it_was() -> None:
    mesh, _, _ = mesh_of(1, replace(Recipe(), warm_up=NO_WARM_UP))
    fine, *others = mesh.nodes
    for updates in ([fine], others, list[Node]()):
        some = Mesh(updates, mesh.recipe, mesh.model, np.random.default_rng(0))
        some.round(0)
        changed = any((some.model[name] != value).any() for name, value in mesh.model.items())
        assert changed is bool(updates)


def test_where_all_know_the_desired_classes_it_is_federated_averaging() -> None:
    """With M = I at every node, a node of the coarse space trains as one of the desired space does."""
    nodes, _, _ = digits(2, np.eye(10))
    as_coarse = Mesh(nodes[1:], replace(Recipe(), schedule="parallel", warm_up=NO_WARM_UP), fresh(2), chance())
    fine = [replace(node, space="digits") for node in nodes[1:]]
    as_fine = Mesh(fine, as_coarse.recipe, fresh(2), chance())
    for number in range(2):
        as_coarse.round(number)
        as_fine.round(number)
    for name, value in as_fine.model.items():
        assert as_coarse.model[name] == pytest.approx(value, abs=1e-9)


def chance() -> np.random.Generator:
    return np.random.default_rng(9)


def figures(name: str, **how: Any) -> float:
    """The mean accuracy over the seeds."""
    alone = how.pop("alone", False)
    result = [run(seed, replace(Recipe(), **how), alone=alone) for seed in SEEDS]
    print(f"{name}: {np.mean(result):.3f} ({min(result):.3f} to {max(result):.3f})")
    return float(np.mean(result))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_few_fine_labels_and_many_coarse_ones_are_worth_more_than_the_few() -> None:
    assert 0.83 < figures("fine node alone", alone=True) < 0.9
    assert figures("known correspondence") >= 0.945
    assert figures("estimated correspondence", known=False) >= 0.945


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_class_that_nobody_is_sure_of_is_lost_unless_the_estimate_leans() -> None:
    parallel = {"schedule": "parallel", "known": False, "rounds": 30}
    lost = figures("in parallel, unseen columns of equal numbers", leaning=False, **parallel)
    kept = figures("in parallel, unseen columns as guesses lean", smoothing=1.0, **parallel)
    assert lost < kept - 0.02


@pytest.mark.long
@pytest.mark.timeout(900)
def test_as_printed_passes_and_sizes_drown_the_few() -> None:
    from_scratch = {"schedule": "parallel", "warm_up": NO_WARM_UP, "rounds": 30}
    assert figures("passes in place of steps", steps=None, **from_scratch) < 0.7
    assert figures("weights by examples", weighting="examples", **from_scratch) < 0.7
    assert figures("equal steps, equal weights", **from_scratch) > 0.9

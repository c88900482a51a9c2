"""Nodes of revision 1a28d2c and of this checkout make the same models, together and apart; takes minutes."""

from __future__ import annotations

import pytest

from tests.frozen.places import ROOT

from . import demo, mixed_mesh

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.mark.parametrize("kind", mixed_mesh.KINDS)
def test_both_versions_train_together(kind: str) -> None:
    with mixed_mesh.old_tree() as tree:
        mixed_mesh.play(kind, (tree, ROOT))


@pytest.mark.parametrize("trainer", ["MNIST", "SMALL_DIGITS"])
def test_a_demo_makes_the_same_models(trainer: str) -> None:
    assert demo.compare(trainer)

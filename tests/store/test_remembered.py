"""What aggregation rules remember comes back from the disk as it was, and the rule goes on as if nothing had been."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flnet.aggregation.base import AggregationRule, RoundStart, State
from flnet.aggregation.consistency import consistency
from flnet.aggregation.fed_opt import adaptive, fed_avg_m
from flnet.algorithms.scaffold import scaffold
from flnet.params.params import Params, PeerId, Schema
from flnet.protocol.updates import Update
from flnet.store.state_folder import ModelFiles
from tests.helpers import key

RULES = [consistency(), fed_avg_m(), adaptive("fedadam"), scaffold()]
BASE = Params({"w": np.ones((2, 2), np.float32), "control/w": np.zeros((2, 2), np.float32)})
SCHEMA = Schema.of(BASE, {"control/w": "control"})


def merged(rule: AggregationRule, state: State, number: int) -> State:
    """What the rule remembers after a round of three noisy nodes."""
    chance = np.random.default_rng(number)
    there = [
        Update(
            PeerId(peer),
            key(number),
            Params({name: a + chance.normal(size=a.shape).astype("f") for name, a in BASE.items()}),
            3,
        )
        for peer in ("a", "b-ä", "c")
    ]
    members = frozenset(one.peer for one in there)
    return rule.merge(state, RoundStart(SCHEMA, BASE, number, PeerId("a"), members), there).state


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name.split(":")[0])
def test_a_rule_goes_on_from_the_disk_as_from_memory(tmp_path: Path, rule: AggregationRule) -> None:
    files, state, restored = ModelFiles(tmp_path), None, None
    for number in range(4):
        state, restored = merged(rule, state, number), merged(rule, restored, number)
        assert state is not None and restored is not None
        assert restored == state
        restored = files.read(files.write(restored, {}))

"""Real nodes that average in segments: the same bits as a mesh, for two models of traffic, also when one of them dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from flnet.aggregation.base import RoundStart
from flnet.aggregation.screening import Bounds, remerge
from flnet.algorithms.registry import parse_rule, sum_encoder
from flnet.params.arithmetic import clipped, weighted_mean
from flnet.params.params import Params, PeerId, Schema
from flnet.params.quantization import Encoding, lowered
from flnet.protocol.updates import RoundKey, Update
from tests.processes.harness import harness, until
from tests.processes.test_wires import LARGE, Wires

NODES = 4
MODEL = 4 * LARGE  # bytes


@contextmanager
def meshed(tmp_path: Path, **settings: str) -> Iterator[Wires]:
    with harness(tmp_path) as made:
        wires = Wires(made, LARGE)
        for place in range(NODES):
            wires.start(TOPOLOGY="segments", DATA_SHARD=f"{place + 1}/{NODES}", **settings)
        made.ready()
        yield wires


@pytest.fixture
def large(tmp_path: Path) -> Iterator[Wires]:
    with meshed(tmp_path) as wires:
        yield wires


def average(parts: range) -> Params:
    """What a mesh makes of the updates of these nodes."""
    steps = [np.linspace(-1, part, LARGE, dtype="float32") for part in parts]
    weights = [10.0 * part for part in parts]
    total = sum(np.float64(weight) * step for weight, step in zip(weights, steps, strict=True))
    biases = sum(weight * part for weight, part in zip(weights, parts, strict=True))
    shared = {"w": total / sum(weights), "b": np.full(3, biases / sum(weights))}
    return Params({name: np.asarray(array, "float32") for name, array in shared.items()})


@pytest.mark.slow
def test_a_round_costs_each_node_two_models_and_makes_the_average_of_a_mesh(large: Wires) -> None:
    nodes = large.harness.nodes
    large.trigger()
    for record in large.ended(0, *nodes):
        assert record["contributors"] == ["n0", "n1", "n2", "n3"]
        assert record["digest"] == average(range(1, NODES + 1)).digest
        for way in ("sent", "received"):
            assert record["bytes"][way] <= 2.1 * MODEL
        assert record["messages"] <= 6 * (NODES - 1 + 4)


@pytest.mark.slow
def test_who_dies_before_its_update_is_there_is_not_waited_for(large: Wires) -> None:
    *others, dying = large.harness.nodes
    dying.process.kill()
    dying.process.wait()
    large.trigger()
    until(lambda: all(node.get("/jobs/MANY")["phase"] == "IDLE" for node in others), "the end of the round")
    for record in large.ended(0, *others):
        assert record["digest"] == average(range(1, NODES)).digest


@pytest.mark.long
@pytest.mark.parametrize(
    ("wire", "encoding", "part"), [("float16", "float16", 0.5), ("int8", "int8-blocks", 0.26)]
)
def test_rounded_updates_travel_in_fewer_bytes_and_make_the_average_of_a_mesh(
    tmp_path: Path, wire: str, encoding: Encoding, part: float
) -> None:
    base = Params({"w": np.zeros(LARGE, "float32"), "b": np.zeros(3, "float32")})
    errors: dict[int, Params | None] = dict.fromkeys(range(1, NODES + 1))
    with meshed(tmp_path, WIRE=wire) as wires:
        for number in range(2):
            wires.trigger()
            sent = []
            for shard in errors:
                step = np.linspace(-1, shard, LARGE, dtype="float32")
                trained = Params({"w": base["w"] + step, "b": base["b"] + np.float32(shard)})
                rounded, errors[shard] = lowered(trained, errors[shard], encoding)
                sent.append((rounded, 10.0 * shard))
            base = weighted_mean(sent, {})
            for record in wires.ended(number, *wires.harness.nodes):
                assert record["digest"] == base.digest
                for way in ("sent", "received"):
                    assert record["bytes"][way] <= 1.03 * (1 + part) * MODEL


@pytest.mark.long
def test_updates_that_nodes_shorten_make_the_average_of_a_mesh(tmp_path: Path) -> None:
    base, bounds = Params({"w": np.zeros(LARGE, "float32"), "b": np.zeros(3, "float32")}), Bounds(clip=3.0)
    schema, rule = Schema.of(base), parse_rule("agg1")
    with meshed(tmp_path, CLIP_NORM="3") as wires:
        for number in range(2):
            wires.trigger()
            sent = []
            for shard in range(1, NODES + 1):
                step = np.linspace(-1, shard, LARGE, dtype="float32")
                trained = Params({"w": base["w"] + step, "b": base["b"] + np.float32(shard)})
                shorter = clipped(base, trained, schema, bounds.clip)
                sent.append(Update(PeerId(f"n{shard - 1}"), RoundKey(number, PeerId("n0")), shorter, 10 * shard))
            base = remerge(bounds, rule, RoundStart(schema, base), None)(sent)
            for record in wires.ended(number, *wires.harness.nodes):
                assert record["digest"] == base.digest
                assert all(record["weighed"][node]["norm"] for node in record["contributors"])


@pytest.mark.long
def test_masked_updates_are_added_in_segments_and_make_the_sum_of_a_mesh(tmp_path: Path) -> None:
    base = Params({"w": np.zeros(LARGE, "float32"), "b": np.zeros(3, "float32")})
    rule, schema = parse_rule("secure"), Schema.of(base)
    with meshed(tmp_path, AGGREGATION="secure") as wires:
        for number in range(2):
            wires.trigger()
            encoder = sum_encoder(rule, schema, base, NODES)
            total = np.zeros(encoder.size, "uint32")
            for shard in range(1, NODES + 1):
                step = np.linspace(-1, shard, LARGE, dtype="float32")
                trained = Params({"w": base["w"] + step, "b": base["b"] + np.float32(shard)})
                total += encoder.encode(trained, 10 * shard, 1).numbers
            base = encoder.decode(total, NODES, np.inf).params
            for record in wires.ended(number, *wires.harness.nodes):
                assert record["contributors"] == ["n0", "n1", "n2", "n3"]
                assert record["digest"] == base.digest
                for way in ("sent", "received"):
                    assert record["bytes"][way] <= 2.1 * MODEL

"""SCAFFOLD's merge: the specification's numbers, and what heals a table of control variates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from flnet.aggregation.base import Merged, RoundStart, State
from flnet.aggregation.fed_avg import fed_avg
from flnet.algorithms.scaffold import Controlled, corrected, scaffold
from flnet.compute.checks import checked_fit, declared
from flnet.params.params import Params, PeerId, Schema
from flnet.protocol.updates import Update
from tests.algorithms.lines import Point, task
from tests.helpers import params, update

NAMES = ("p0", "p1")
ROUNDS = [  # O6: y and c_i of both nodes, then x and c
    ((0.81, 1.72), (0.95, -3.6), 1.265, -1.325),
    ((1.4569, 1.4801), (1.3155, -3.3505), 1.4685, -1.0175),
    ((1.632755, 1.5999), (1.511725, -2.99), 1.6163275, -0.7391375),
]


def start(x: float, c: float = 0.0, number: int = 0, members: Sequence[str] = NAMES) -> RoundStart:
    base = model(x, c)
    schema = Schema.of(base, {"control/w": "control"})
    return RoundStart(schema, base, number, PeerId("p0"), frozenset(map(PeerId, members)))


def model(x: float, c: float) -> Params:
    return params("float64", **{"w": [x], "control/w": [c]})


def sent(values: Mapping[str, tuple[float, float]], examples: int = 1) -> list[Update]:
    """Model and new control variate of each."""
    return [
        replace(update(peer, examples=examples), params=model(*updates))
        for peer, updates in sorted(values.items())
    ]


def trained(node: int, x: float, c: float, own: float) -> tuple[float, float]:
    """Two corrected steps of rate 0.1 on x^2 / 2 or (x - 3)^2."""
    y = x
    for _ in range(2):
        slope = y if node == 0 else 2 * (y - 3)
        y -= 0.1 * (slope - own + c)
    return y, own - c + (x - y) / (2 * 0.1)


def test_o6_three_rounds() -> None:
    x, c, own, state = 1.0, 0.0, [0.0, 0.0], None
    for number, (ys, owns, new_x, new_c) in enumerate(ROUNDS):
        updates = [trained(node, x, c, own[node]) for node in range(2)]
        assert [one[0] for one in updates] == pytest.approx(ys, abs=1e-9)
        own = [one[1] for one in updates]
        assert own == pytest.approx(owns, abs=1e-9)
        merged = scaffold().merge(state, start(x, c, number), sent(dict(zip(NAMES, updates, strict=True))))
        x, c, state = float(merged.params["w"][0]), float(merged.params["control/w"][0]), merged.state
        assert (x, c) == pytest.approx((new_x, new_c), abs=1e-9)
        assert merged.is_common
        assert {value.weight for value in merged.weighed.values()} == {0.5}


FOUR = ("p0", "p1", "p2", "p3")


def four() -> Merged:
    """All of four nodes told their control variates, whose mean is 0.5."""
    updates = sent({"p0": (1, 0.1), "p1": (1, 0.9), "p2": (1, 0.4), "p3": (1, 0.6)})
    return scaffold().merge(None, start(0, members=FOUR), updates)


def test_o6_where_some_take_part() -> None:
    first = four()
    assert first.params["control/w"] == pytest.approx([0.5])
    updates = sent({"p0": (5, 0.1 + 0.2), "p1": (7, 0.9 + 0.4)})
    merged = scaffold().merge(first.state, start(1, 0.5, 1, FOUR), updates)
    assert merged.params["control/w"] == pytest.approx([0.65], abs=1e-12)
    assert merged.params["w"].tolist() == [6]


def test_a_newcomer_counts_as_nothing_and_who_leaves_is_forgotten() -> None:
    first = four()
    five = scaffold().merge(first.state, start(1, 0.5, 1, (*FOUR, "p4")), sent({"p0": (1, 0.1)}))
    assert five.params["control/w"] == pytest.approx([2.0 / 5])
    three = scaffold().merge(five.state, start(1, 0.4, 2, FOUR[1:]), sent({"p1": (1, 0.9)}))
    assert three.params["control/w"] == pytest.approx([1.9 / 3])
    back = scaffold().merge(three.state, start(1, 1.9 / 3, 3, FOUR), sent({"p1": (1, 0.9)}))
    assert back.params["control/w"] == pytest.approx([1.9 / 4])


def test_a_lost_message_heals_with_the_next_one_and_the_node_knows_until_then() -> None:
    everyone = {name: (1.0, value) for name, value in zip(FOUR, (0.1, 0.9, 0.4, 0.6), strict=True)}
    newer = everyone | {"p3": (1.0, 2.6)}
    here, updates = (scaffold().merge(None, start(0, members=FOUR), sent(everyone)) for _ in range(2))
    begin = RoundStart(start(0).schema, updates.params, 1, PeerId("p0"), frozenset(map(PeerId, FOUR)))
    updates = scaffold().merge(updates.state, begin, sent(newer))
    here = scaffold().merge(here.state, begin, sent({n: v for n, v in newer.items() if n != "p3"}))
    assert here.params != updates.params
    # The others' average is adopted; as long as p3 was not heard of again, this node may not be followed.
    begin = replace(begin, base=updates.params, number=2)
    some = sent({n: v for n, v in newer.items() if n != "p3"})
    still = scaffold().merge(here.state, begin, some)
    assert not still.is_common
    whole = scaffold().merge(still.state, replace(begin, base=still.params, number=3), sent(newer))
    assert whole.is_common
    assert whole.params["control/w"] == updates.params["control/w"]


def test_who_joined_later_may_be_followed_once_it_heard_of_all() -> None:
    late = start(0, number=9, members=FOUR)
    some = scaffold().merge(None, late, sent({"p0": (1, 0.1), "p1": (1, 0.9)}))
    assert not some.is_common
    whole = scaffold().merge(
        some.state, replace(late, base=some.params, number=10), sent(dict.fromkeys(FOUR, (1, 1)))
    )
    assert whole.is_common


def test_without_control_variates_it_is_the_plain_mean() -> None:
    updates = [update("p0", examples=1, w=[1.0], n=np.array(3)), update("p1", examples=9, w=[4.0], n=np.array(5))]
    base = params("float64", w=[0.0], n=np.array(0))
    begin = RoundStart(Schema.of(base), base)
    assert scaffold().merge(None, begin, updates).params == fed_avg("agg0").merge(None, begin, updates).params
    by_size = scaffold(by_size=True).merge(None, begin, updates)
    assert by_size.params == fed_avg("agg1").merge(None, begin, updates).params
    assert by_size.weighed[PeerId("p1")].weight == 0.9


def test_the_rate_stretches_the_step() -> None:
    updates = sent({"p0": (3, 0), "p1": (5, 0)})
    assert scaffold(0.5).merge(None, start(1), updates).params["w"].tolist() == [2.5]
    assert (scaffold().needs_base, scaffold(0.5).needs_base) == (False, True)


def test_one_update_is_itself_but_for_the_common_control_variate() -> None:
    merged = scaffold().merge(None, start(1, members=("p0", "p1")), sent({"p0": (3, 0.5)}))
    assert merged.params == model(3, 0.25)


def test_who_learnt_from_nothing_tells_its_control_variate_alone() -> None:
    updates = [*sent({"p0": (3, 0.5)}), *sent({"p1": (99, 1.5)}, examples=0)]
    merged = scaffold().merge(None, start(1), updates)
    assert merged.params == model(3, 1.0)
    assert merged.weighed[PeerId("p1")].weight == 0.0


def test_the_order_of_peers_not_of_arrival_decides_and_nothing_is_kept_of_another_rule() -> None:
    state: State = four().state
    begin = start(1, 0.5, 1, FOUR)
    assert scaffold(0.5).merge(state, begin, sent({"p0": (1, 0.1)})).params["control/w"] == pytest.approx([0.025])


def test_the_name_says_what_is_not_usual() -> None:
    assert [each.name for each in (scaffold(), scaffold(0.50), scaffold(by_size=True))] == [
        "scaffold",
        "scaffold:0.5",
        "scaffold:1:examples",
    ]
    with pytest.raises(ValueError, match="above 0"):
        scaffold(0)


# SCAFFOLD's local side around trainers: two nodes worked by hand, and what is declared.


def test_without_control_variates_a_step_is_the_plain_one() -> None:
    zero = {"x": np.zeros(2)}
    assert corrected({"x": np.array([1.0, 2.0])}, zero, zero)["x"].tolist() == [1.0, 2.0]


def test_o6_three_rounds_of_two_nodes() -> None:
    """Losses x^2 / 2 and (x - 3)^2 from x = 1, two steps of .1 a round; merged as SCAFFOLD merges."""
    nodes = [Controlled(Point((0.0,), (1.0,)), 0), Controlled(Point((3.0,), (1.0,), slope=2.0), 0)]
    held = [dict(node.initial_params(0)) for node in nodes]
    for ys, cs, mean, control in ROUNDS:
        fits = [checked_fit(node.fit(task(params)), params, "T") for node, params in zip(nodes, held, strict=True)]
        assert [fit.params["z"][0] for fit in fits] == pytest.approx(ys, abs=1e-9)
        assert [fit.params["control/z"][0] for fit in fits] == pytest.approx(cs, abs=1e-9)
        assert [fit.params["own control/z"][0] for fit in fits] == pytest.approx(cs, abs=1e-9)
        common = {name: np.mean([fit.params[name] for fit in fits], axis=0) for name in nodes[0].shared or ()}
        held = [{**fit.params, **common} for fit in fits]
        assert common["z"][0] == pytest.approx(mean, abs=1e-9)
        assert common["control/z"][0] == pytest.approx(control, abs=1e-9)


def test_the_first_round_is_the_plain_training() -> None:
    """With all control variates 0, as FedAvg."""
    point, controlled = Point((3.0,), (1.0,)), Controlled(Point((3.0,), (1.0,)), 0)
    start = controlled.initial_params(0)
    learnt, plain = controlled.fit(task(start, epochs=4)), point.fit(task({"z": start["z"]}, epochs=4))
    assert learnt.params["z"] == pytest.approx(plain.params["z"], abs=1e-12)
    assert learnt.metrics["loss"] > 0


def test_shared_controls_have_a_rule_of_their_own_and_own_ones_stay() -> None:
    class TwoLayers(Point):
        shared = ("z",)

        def initial_params(self, seed: int) -> dict[str, np.ndarray]:
            return {"z": self.start.copy(), "head": np.ones(1), "count": np.zeros(1, np.int64)}

    node = Controlled(TwoLayers((0.0,), (1.0,)), 0)
    message = declared(node, "T", Params(node.initial_params(0)))
    assert message.shared == ("z", "control/z")  # nothing of the private head is told
    assert message.merge == {"control/z": "control"}
    assert set(node.initial_params(0)) == {"z", "head", "count", "control/z", "own control/z"}

"""What rules do to packets, in exact numbers."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hosts.rules import (
    BACKLOG_SECONDS,
    HEADER_BYTES,
    HELD_BACK_SECONDS,
    Direction,
    Due,
    Rule,
    Rules,
    flipped,
)

PACKET = bytes(100)
RATES = st.floats(0, 1)


def fates(rule: Rule, count: int = 2000, seed: int = 1) -> list[list[Due]]:
    """Of packets that come every ten milliseconds."""
    direction = Direction(seed, 0, 1)
    return [direction.carry(number.to_bytes(100, "big"), rule, number / 100) for number in range(count)]


def test_without_a_rule_each_packet_arrives_at_once_and_whole() -> None:
    assert Direction(1, 0, 1).carry(PACKET, Rule(), 5.0) == [Due(5.0, PACKET)]


def test_a_delay_is_added_to_each() -> None:
    assert [due.at for (due,) in fates(Rule(delay=0.1), 3)] == pytest.approx([0.1, 0.11, 0.12])


def test_jitter_adds_up_to_its_bound_and_keeps_the_order() -> None:
    times = [due.at for (due,) in fates(Rule(delay=0.1, jitter=0.05))]
    assert times == sorted(times)
    extra = [at - number / 100 - 0.1 for number, at in enumerate(times)]
    assert min(extra) > -1e-9
    assert 0.04 < max(extra) <= 0.05 + 1e-9


@pytest.mark.parametrize(("rule", "copies"), [(Rule(loss=0.05), 0), (Rule(duplicate=0.05), 2)])
def test_of_two_thousand_packets_five_in_a_hundred_are_lost_or_doubled(rule: Rule, copies: int) -> None:
    counts = Counter(len(fate) for fate in fates(rule))
    assert counts.keys() == {1, copies}
    assert 60 <= counts[copies] <= 140  # 100 expected; four standard deviations of 9.7


def test_reordered_packets_come_later_than_those_behind_them() -> None:
    order = sorted((due.at, number) for number, (due,) in enumerate(fates(Rule(reorder=0.1))))
    numbers = [number for _, number in order]
    late = sum(a > b for a, b in pairwise(numbers))
    assert 140 <= late <= 260  # 200 expected
    assert {round(at - n / 100, 6) for at, n in order} == {0.0, HELD_BACK_SECONDS}


def test_a_corrupt_packet_differs_in_one_bit_behind_its_header() -> None:
    for number, (due,) in enumerate(fates(Rule(corrupt=1.0), 200)):
        sent = number.to_bytes(100, "big")
        changed = [a ^ b for a, b in zip(sent, due.packet, strict=True)]
        assert sum(bits.bit_count() for bits in changed) == 1
        assert not any(changed[:HEADER_BYTES])
    assert flipped(b"short", 0.5) == b"short"


def test_a_rate_spaces_packets_out_and_drops_what_waits_too_long() -> None:
    slow = Direction(1, 0, 1)
    rule = Rule(rate=800)  # 100 bytes take an eighth of a second
    arrivals = [slow.carry(PACKET, rule, 0.0) for _ in range(100)]
    times = [due.at for fate in arrivals for due in fate]
    assert times[:3] == [0.125, 0.25, 0.375]
    assert len(times) == BACKLOG_SECONDS * 8 + 1  # waiting for exactly the bound is not too long
    assert slow.dropped == 100 - len(times)
    ((due,),) = [slow.carry(PACKET, rule, 60.0)]
    assert due.at == 60.125  # the link is free again


def test_a_cut_direction_lets_nothing_pass() -> None:
    assert not any(fates(Rule(cut=True), 50))


@given(st.integers(0, 99), RATES, RATES, st.integers(0, 60))
def test_the_fate_of_a_packet_does_not_depend_on_the_rules_of_those_before_it(
    seed: int, loss: float, reorder: float, changed: int
) -> None:
    plain, meddled = Direction(seed, 2, 3), Direction(seed, 2, 3)
    rule, other = Rule(loss=loss, reorder=reorder, corrupt=0.5), Rule(cut=True, rate=1.0)
    for number in range(changed):
        plain.carry(PACKET, rule, float(number))
        meddled.carry(PACKET, other, float(number))
    late = float(changed + 1000)
    assert plain.carry(PACKET, rule, late) == meddled.carry(PACKET, rule, late)


def test_the_two_ways_of_a_link_draw_different_lots() -> None:
    there, back = Direction(1, 0, 1), Direction(1, 1, 0)
    half = Rule(loss=0.5)
    assert [there.carry(PACKET, half, 0.0) for _ in range(64)] != [
        back.carry(PACKET, half, 0.0) for _ in range(64)
    ]


def test_rules_hold_one_way_and_healing_keeps_the_weather() -> None:
    rules = Rules(Rule(delay=0.1))
    rules.cut(0, 1)
    assert (rules.rule(0, 1), rules.rule(1, 0)) == (Rule(delay=0.1, cut=True), Rule(delay=0.1))
    rules.part([0, 1, 2], [3, 4])
    assert {(a, b) for a in range(5) for b in range(5) if not rules.rule(a, b).cut and a < b} == {
        *((0, 2), (1, 2)),
        (3, 4),
    }
    assert rules.rule(5, 6) == Rule(delay=0.1)  # hosts that no island names are together
    assert rules.rule(0, 5).cut
    rules.heal()
    assert {rules.rule(a, b) for a in range(5) for b in range(5)} == {Rule(delay=0.1)}
    rules.set_one_way(0, 1, Rule(loss=1.0))
    rules.set_all(Rule())
    assert rules.rule(0, 1) == Rule()

"""Aggregation rules in words."""

from __future__ import annotations

import pytest

from flnet.aggregation.naming import rule_text, rule_words, sum_cautions
from flnet.algorithms.registry import parse_rule
from flnet.algorithms.secure_sum import threshold
from flnet.web.translation import translator


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("agg1", "weighted average (agg1)"),
        ("clip, agg0", "clip, plain average (agg0)"),
        ("median", "median"),
        ("secure", "secure sum (up to 1/3 of the nodes may vanish, 32 bits), weighted average (agg1)"),
        (
            "secure:0.25:64,agg2",
            "secure sum (up to 25 % of the nodes may vanish, 64 bits), average weighted by labels (agg2)",
        ),
        ("secure:0,k-means:1", "secure sum (up to 0 % of the nodes may vanish, 64 bits), k-means:1"),
    ],
)
def test_a_rule_is_said_in_words(written: str, words: str) -> None:
    name = ",".join(part.strip() for part in written.split(","))
    name = parse_rule(name).name if "secure" in name else name
    assert rule_text(name) == words
    assert rule_words(name, translator("en")) == words


@pytest.mark.parametrize("part", ["secure:9:32", "secure:0.33333:32", "secure:0.25:16", "secure:x:y:z", "secure"])
def test_a_rule_that_a_peer_made_up_stays_as_it_is(part: str) -> None:
    assert rule_text(f"{part},agg1") == f"{part}, weighted average (agg1)"


@pytest.mark.parametrize(
    ("mode", "says"), [("open", ["an active stranger"]), ("keyed", ["who knows that key"]), ("pinned", [])]
)
def test_what_a_mesh_lets_others_do_is_said_by_its_mode(mode: str, says: list[str]) -> None:
    cautions = sum_cautions(mode, 4, threshold(4))
    assert len(cautions) == len(says)
    assert all(words in caution for words, caution in zip(says, cautions, strict=True))


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 5, 6, 7, 30])
@pytest.mark.parametrize("part", [0, 0.25, 1 / 3, 0.4, 0.49])
def test_small_groups_are_warned_of_as_the_arithmetic_says(nodes: int, part: float) -> None:
    least = threshold(nodes, part)
    cautions = sum_cautions("pinned", nodes, least)
    if nodes == 2:
        assert [str(caution) for caution in cautions] == [
            "There are two nodes in the sum: the sum minus one's own update is the update of the other."
        ]
    elif nodes > 2 and not 2 * least > nodes + 1:  # one liar is enough; see `threshold`
        (caution,) = cautions
        assert caution.startswith(f"{least} of {nodes} nodes open a sum: one node that lies")
    else:
        assert cautions == []

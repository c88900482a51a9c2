"""The sentences that say how a round ended."""

from __future__ import annotations

import pytest

from flnet.effects import Evaluate
from flnet.events import DeclineReceived, Evaluated, PeerLost, RoundTriggered, Trained, UpdateReceived
from flnet.jobs.record import RoundRecord, closing_words, names
from flnet.params import PeerId
from flnet.rounds import Averaging, Closing
from tests.helpers import key, params, update
from tests.jobs.helpers import Bench


def gathered(*names: str, peers: tuple[str, ...] = ("b", "c"), declined: str = "") -> Averaging:
    r = Averaging(key(), PeerId("a"), [PeerId(name) for name in peers], 30)
    for name in names:
        r.receive(UpdateReceived(update(name, w=[1.0])))
    if declined:
        r.receive(DeclineReceived(PeerId(declined), key(), "on battery"))
    return r


def words(r: Averaging, why: Closing) -> str:
    r.closed = why
    return closing_words(r)


@pytest.mark.parametrize(
    ("averaging", "why", "sentence"),
    [
        (gathered("a", "b", "c"), Closing.COMPLETE, "averaged 3 updates: everyone expected has spoken"),
        (
            gathered("a", "b", declined="c"),
            Closing.COMPLETE,
            "averaged 2 updates: everyone expected has spoken (not taking part: c: on battery)",
        ),
        (
            gathered("a", peers=()),
            Closing.COMPLETE,
            "averaged 1 update: everyone expected has spoken (this node averaged alone)",
        ),
        (gathered("a", "b"), Closing.TIMER, "averaging was forced by the timer with 2 updates, without c"),
        (
            gathered("a"),
            Closing.TIMER,
            "averaging was forced by the timer with 1 update, without b, c (this node averaged alone)",
        ),
        (gathered("c"), Closing.NEXT_ROUND, "averaging was forced by the next round with 1 update, without a, b"),
        (gathered(), Closing.TIMER, "no update came; the model stays as it was"),
        (
            gathered(declined="b"),
            Closing.COMPLETE,
            "no update came (not taking part: b: on battery); the model stays as it was",
        ),
    ],
)
def test_the_sentence_says_why_with_how_many_and_without_whom(
    averaging: Averaging, why: Closing, sentence: str
) -> None:
    assert words(averaging, why) == sentence


def test_a_lost_peer_is_not_among_the_missing() -> None:
    r = gathered("a", "b")
    r.receive(PeerLost(PeerId("c"), "silent"))
    assert "without" not in closing_words(r)


def test_at_most_five_peers_stand_in_a_sentence() -> None:
    assert names(list("abcdefg")) == "a, b, c, d, e and 2 more"
    assert names(list("abcde")) == "a, b, c, d, e"


def test_a_record_that_was_only_opened_is_complete() -> None:
    view = RoundRecord(key(3, "b")).view()
    assert (view["round"], view["initiator"], view["outcome"], view["contributors"]) == (3, "b", "open", [])


def test_the_trainers_further_figures_are_kept_before_and_after() -> None:
    bench = Bench(peers=())
    bench.hear(RoundTriggered())
    bench.hear(Trained(key(0, "b"), params(w=[1, 1]), 5, 0.5, metrics={"auc": 0.6}))
    bench.average()
    measure = bench.one(Evaluate)
    bench.hear(Evaluated(measure.key, measure.shared.digest, 0.7, metrics={"auc": 0.8}))
    (record,) = bench.job.history()
    assert record["metrics"] == {"before": {"auc": 0.6}, "after": {"auc": 0.8}}
    assert bench.job.view()["metrics"] == record["metrics"]

"""Updates that came and do not count: the job names them and goes on."""

from __future__ import annotations

import pytest

from flnet.effects import Average, Fetch, Fold, Publish
from flnet.events import Averaged, Fetched, FetchFailed, SumSpoilt
from flnet.jobs import Phase
from flnet.params import PeerId
from tests.helpers import key, params
from tests.jobs.helpers import Bench, asked, came
from tests.jobs.test_closing import averaging

A, C = PeerId("a"), PeerId("c")


def test_an_update_that_does_not_count_is_named_and_the_round_goes_on() -> None:
    bench = averaging("a", "c")
    bench.hear(Averaged(key(0, "b"), params(w=[3, 3]), 0.1, {PeerId("c"): "it moved 9"}))
    assert bench.phase is Phase.MEASURING
    record, model = bench.state.record, bench.state.model
    assert record is not None
    assert model is not None
    assert record.contributors == ("a", "b")
    assert record.outcome == "averaged 3 updates: everyone expected has spoken; left out: c"
    assert model.contributors == 2
    told = next(one for one in bench.all(Publish) if one.kind == "update_refused")
    assert (told.text, told.data["peer"]) == ("the update of c does not count: it moved 9", "c")


def test_an_average_from_another_base_gives_way_to_any_other_of_its_round() -> None:
    bench = averaging("a", "c")
    bench.hear(Averaged(key(0, "b"), params(w=[3, 3]), is_common=False))
    assert bench.state.model is not None
    assert bench.state.model.contributors == 0
    assert bench.state.model.better_of(params(w=[1, 1]), 0, 1).shared == params(w=[1, 1])


@pytest.fixture
def spoilt(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A round of b with a, c and d, whose sum holds the updates of a, b and c; that of c does not count."""
    monkeypatch.setattr("flnet.jobs.state.HOLD_BYTES", 8)  # one update
    bench = Bench(peers=["a", "c", "d"])
    bench.hear(asked("a"))
    for name in ("a", "c"):
        bench.hear(came(name))
    bench.train()
    bench.hear(came("d"))
    assert bench.one(Average).folded == ("a", "b", "c")
    bench.hear(SumSpoilt(key(), {C: "it moved 9"}))
    return bench


def test_a_sum_that_holds_what_does_not_count_is_made_again(spoilt: Bench) -> None:
    bench = spoilt
    assert (bench.phase, bench.one(Fetch).peer) == (Phase.AVERAGING, "a")
    told = bench.one(Publish)
    assert told.kind == "update_refused"
    assert told.text.startswith("the sum of this round holds what does not count, of c; ")
    bench.hear(Fetched(key(), A, bench.one(Fetch).digest, params(w=[1, 1])))
    assert [u.peer for fold in bench.all(Fold) for u in fold.updates] == ["a", "b"]
    assert (bench.one(Average).folded, [u.peer for u in bench.one(Average).updates]) == (("a", "b"), ["d"])
    bench.hear(Averaged(key(), params(w=[3, 3]), 0.1, {C: "it moved 9"}))
    record = bench.state.record
    assert record is not None
    assert record.contributors == ("a", "b", "d")
    assert record.outcome == "averaged 4 updates: everyone expected has spoken; left out: c"


def test_who_does_not_give_its_update_again_is_named(spoilt: Bench) -> None:
    bench = spoilt
    bench.hear(FetchFailed(key(), A, bench.one(Fetch).digest, "gone"))
    assert bench.one(Publish).text == "the update of a could not be fetched: gone"
    bench.hear(Averaged(key(), params(w=[3, 3]), 0.1, {C: "it moved 9"}))
    record = bench.state.record
    assert record is not None
    assert record.contributors == ("b", "d")
    assert record.outcome.endswith("; not fetched again: a; left out: c")


def test_a_sum_of_another_round_is_nothing_to_this_one(spoilt: Bench) -> None:
    assert spoilt.hear(SumSpoilt(key(7), {A: "it moved 9"})) == []

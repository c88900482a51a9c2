"""How a version comes about without common rounds; specification section 12 (BrainTorrent), oracle O16."""

from __future__ import annotations

import pytest

from flnet.effects import Answer, Average, Fetch, Publish, Save, Send, SetTimer, Train
from flnet.errors import JobBusy
from flnet.events import (
    AveragingFailed,
    Fetched,
    FetchFailed,
    Paused,
    PeerLost,
    PeerSeen,
    RoundTriggered,
    SendFailed,
    SendRefused,
    SeriesStopped,
    TimerFired,
    TrainingFailed,
    VersionAnswered,
)
from flnet.jobs import Phase
from flnet.messages import AskVersion, Triggered
from flnet.params import PeerId
from tests.helpers import key, params
from tests.jobs.helpers import refuses
from tests.jobs.versions import AloneBench, version

A, C = PeerId("a"), PeerId("c")


def trained_once(w: tuple[float, float] = (1, 1), examples: int = 10) -> AloneBench:
    """Node b with a version of its own, into which version 1 of c went."""
    bench = AloneBench()
    bench.hear(RoundTriggered())
    bench.answers(version("a", 0), version("c", 1, (7, 7), 60))
    bench.fetches(c=(7, 7))
    bench.merge()
    bench.train(w, examples)
    return bench


def test_oracle_o16_newer_models_are_merged_by_examples_with_the_own_one() -> None:
    bench = trained_once((1, 1), 10)
    bench.hear(RoundTriggered())
    bench.answers(version("a", 1, (4, 0), 30), version("c", 1, (7, 7), 60))
    assert [fetch.peer for fetch in bench.all(Fetch)] == [A]
    bench.fetches(a=(4, 0))
    merged = bench.merge()
    assert merged["w"].tolist() == [3.25, 0.25]  # (10 (1, 1) + 30 (4, 0)) / 40
    assert bench.one(Train).params["w"].tolist() == [3.25, 0.25]
    bench.train((3, 0))
    assert bench.w == [3, 0] and bench.state.number == 2
    assert bench.state.history[-1].outcome == "merged a v1, trained, now v2"
    assert bench.state.history[-1].contributors == ("a", "b")


def test_a_new_version_is_saved_with_what_went_into_it_before_anybody_hears_of_it() -> None:
    bench = AloneBench()
    bench.hear(RoundTriggered())
    bench.answers(version("a", 7, (4, 0)), version("c", 4, (2, 0)))
    bench.fetches(a=(4, 0), c=(2, 0))
    bench.merge()
    bench.train((5, 5), 20, 0.75)
    kinds = [type(effect) for effect in bench.effects]
    assert kinds.index(Save) < kinds.index(Send)
    saved = bench.one(Save)
    assert saved.params is not None and saved.sent is not None and saved.params["w"].tolist() == [5, 5]
    assert set(saved.snapshot["versions"]["merged"]) == {"a", "c"}
    assert saved.records[0]["outcome"] == "merged a v7 and c v4, trained, now v1"
    told = bench.said(AskVersion)
    assert (told.round, told.examples, told.accuracy, told.run) == (1, 20, 0.75, "run b")
    assert told.digest == params(w=(5, 5)).digest
    told_people = [effect.text for effect in bench.all(Publish)]
    assert "merged a v7 and c v4, trained, now v1; accuracy here 0.7500" in told_people


def test_who_asks_is_told_the_number_and_the_request_is_on_the_disk_first() -> None:
    bench = AloneBench()
    bench.hear(RoundTriggered(rounds=3))
    assert bench.one(Answer).message == Triggered(trainer_id="T", round=1)
    assert bench.one(Save).snapshot["phase"] == "FETCHING" and bench.one(Save).snapshot["rounds_left"] == 2
    asked = bench.one(Send)
    assert asked.to == (A, C) and isinstance(asked.message, AskVersion) and asked.message.round == 0


def test_without_any_update_the_node_only_trains() -> None:
    bench = AloneBench()
    bench.hear(RoundTriggered())
    bench.answers(version("a", 0, (0, 0)), version("c", 0, (0, 0)))  # the same first model as here
    assert not bench.all(Fetch) and bench.phase is Phase.TRAINING
    bench.train()
    assert bench.state.history[-1].outcome == "merged nothing, for nobody had a newer model, trained, now v1"


def test_a_node_alone_asks_nobody() -> None:
    bench = AloneBench(peers=())
    bench.hear(RoundTriggered())
    assert bench.phase is Phase.TRAINING and not bench.all(Send) and not bench.all(SetTimer)


def test_peers_that_do_not_answer_are_left_out() -> None:
    bench = AloneBench(peers=("a", "c", "d", "e"))
    bench.hear(RoundTriggered())
    (timer,) = bench.all(SetTimer)
    bench.hear(SendFailed(A, AskVersion.path, key(0, "b"), "no way"))
    bench.hear(PeerLost(C, "it is gone"))
    bench.answers(version("d", 2, (4, 0)))
    assert bench.phase is Phase.FETCHING and not bench.all(Fetch)  # e has not said anything yet
    bench.hear(TimerFired(timer.name))
    assert [fetch.peer for fetch in bench.all(Fetch)] == ["d"]
    bench.fetches(d=(4, 0))
    bench.merge()
    bench.train()
    record = bench.state.history[-1]
    assert record.contributors == ("b", "d") and record.missing == ("e",)


def test_news_that_did_not_get_through_is_no_missing_answer() -> None:
    bench = AloneBench(peers=("a",))
    bench.hear(PeerSeen(A))
    bench.hear(RoundTriggered())
    bench.hear(SendFailed(A, AskVersion.path, key(0, "b"), "no way"))
    assert bench.phase is Phase.FETCHING
    bench.answers(version("a", 1, (4, 0)))
    assert [fetch.peer for fetch in bench.all(Fetch)] == [A]


def test_a_peer_that_refuses_is_named_and_left_out() -> None:
    bench = AloneBench(peers=("a",))
    bench.hear(RoundTriggered())
    words = "the nodes do not agree on rounds: here common to all nodes; there of each node by itself"
    bench.hear(SendRefused(A, AskVersion.path, key(0, "b"), 422, "params_refused", words))
    assert any(words in told.text for told in bench.all(Publish))
    assert bench.phase is Phase.TRAINING


def test_a_model_that_cannot_be_fetched_is_merged_the_next_time() -> None:
    bench = AloneBench(peers=("a",))
    bench.hear(RoundTriggered())
    bench.answers(version("a", 3, (4, 0)))
    fetch = bench.one(Fetch)
    bench.hear(FetchFailed(key(1, "b"), A, fetch.digest, "it was not there any more"))
    bench.train()
    assert bench.state.history[-1].missing == ("a",)
    assert "no newer model could be fetched" in bench.state.history[-1].outcome
    bench.hear(RoundTriggered())
    bench.answers(version("a", 3, (4, 0)))
    assert bench.one(Fetch).digest == fetch.digest


def test_what_is_not_here_in_time_is_left_out() -> None:
    bench = AloneBench()
    bench.hear(RoundTriggered())
    bench.answers(version("a", 1, (4, 0)), version("c", 1, (2, 0)))
    timer = bench.all(SetTimer)[-1]
    fetch = next(fetch for fetch in bench.all(Fetch) if fetch.peer == A)
    bench.hear(Fetched(key(1, "b"), A, fetch.digest, params(w=(4, 0))))
    bench.hear(TimerFired(timer.name))
    assert [update.peer for update in bench.one(Average).updates] == ["a"]


def test_who_has_never_trained_adds_nothing_of_its_own() -> None:
    bench = AloneBench(w=(100, 100))
    bench.hear(RoundTriggered())
    bench.answers(version("a", 1, (4, 0), 30), version("c", 0))
    bench.fetches(a=(4, 0))
    assert bench.merge()["w"].tolist() == [4, 0]


def test_before_anybody_has_trained_all_begin_with_one_model() -> None:
    models = {"a": (1, 0), "b": (2, 0), "c": (3, 0)}
    first = min(models, key=lambda name: params(w=models[name]).digest)
    for me in "abc":
        bench = AloneBench(me, [name for name in "abc" if name != me], w=models[me])
        bench.hear(RoundTriggered())
        bench.answers(*(version(name, 0, models[name]) for name in "abc" if name != me))
        if me != first:
            bench.fetches(**models)
            bench.merge()
        assert bench.one(Train).params["w"].tolist() == list(models[first])
        bench.train()
        assert bench.state.history[-1].contributors == (me,)


def test_a_model_far_from_all_others_is_refused() -> None:
    bench = AloneBench(peers=("a", "c", "d"))
    bench.hear(RoundTriggered())
    bench.answers(version("a", 1, (1, 0)), version("c", 1, (1, 1)), version("d", 1, (1e9, 0)))
    bench.fetches(a=(1, 0), c=(1, 1), d=(1e9, 0))
    assert max(bench.merge()["w"].tolist()) == 1
    assert any("the update of d does not count" in told.text for told in bench.all(Publish))
    bench.train()
    record = bench.state.history[-1]
    assert record.contributors == ("a", "b", "c") and "left out: d" in record.outcome
    assert PeerId("d") not in bench.state.versions.merged


def test_distances_are_measured_from_where_the_own_training_began() -> None:
    bench = trained_once((8, 8))
    assert bench.state.versions.base is not None
    assert bench.state.versions.base["w"].tolist() == [7, 7]
    assert bench.state.screened_from is bench.state.versions.base


def test_a_merge_that_fails_leaves_the_own_model_to_train_from() -> None:
    bench = trained_once((1, 1))
    bench.hear(RoundTriggered())
    bench.answers(version("a", 1, (4, 0)), version("c", 1, (7, 7)))
    bench.fetches(a=(4, 0))
    bench.hear(AveragingFailed(key(2, "b"), "no memory"))
    assert bench.one(Train).params["w"].tolist() == [1, 1]
    bench.train()
    assert bench.state.history[-1].contributors == ("b",)
    assert A not in bench.state.versions.merged


def test_a_training_that_fails_makes_no_version_and_what_it_began_with_counts_as_not_merged() -> None:
    bench = trained_once((1, 1))
    bench.hear(RoundTriggered())
    bench.answers(version("a", 1, (4, 0)), version("c", 1, (7, 7)))
    bench.fetches(a=(4, 0))
    bench.merge()
    bench.hear(TrainingFailed(key(2, "b"), "no memory"))
    assert bench.phase is Phase.IDLE and bench.w == [1, 1] and not bench.all(Send)
    assert bench.state.own is not None and bench.state.own.key.number == 1
    assert A not in bench.state.versions.merged
    assert "training failed" in bench.state.history[-1].outcome


def test_a_series_goes_on_by_itself_and_a_person_ends_it() -> None:
    bench = AloneBench(peers=())
    bench.hear(RoundTriggered(rounds=3))
    bench.train()
    assert bench.state.number == 2 and bench.all(Train)
    bench.hear(SeriesStopped())
    bench.train()
    assert bench.phase is Phase.IDLE and bench.state.number == 2


def test_a_goal_is_decided_by_the_node_alone() -> None:
    bench = AloneBench()
    bench.hear(RoundTriggered(rounds=10, until="accuracy>=0.9"))
    for accuracy in (0.5, 0.8, 0.95):
        bench.answers(version("a", 0, (0, 0)), version("c", 0, (0, 0)))
        bench.train(accuracy=accuracy)
    assert bench.phase is Phase.IDLE and bench.state.number == 3
    assert bench.state.history[-1].decision is not None and bench.state.history[-1].decision["over"] == "reached"


@pytest.mark.parametrize("during", [Phase.FETCHING, Phase.TRAINING])
def test_a_version_that_is_under_way_is_not_begun_twice(during: Phase) -> None:
    bench = AloneBench(peers=("a",))
    bench.hear(RoundTriggered())
    if during is Phase.TRAINING:
        bench.answers(version("a", 0, (0, 0)))
    assert bench.phase is during
    assert "version 1 is still" in str(refuses(bench, RoundTriggered(), JobBusy))


def test_a_paused_node_begins_none() -> None:
    bench = AloneBench()
    bench.hear(Paused())
    refuses(bench, RoundTriggered(), JobBusy)


def test_an_answer_to_earlier_news_does_not_end_the_question_but_counts_if_no_other_comes() -> None:
    bench = trained_once((1, 1), 10)  # its news to both is still under way
    bench.hear(RoundTriggered())
    bench.hear(VersionAnswered(version("a", 1, (4, 0), 30)))
    bench.hear(VersionAnswered(version("c", 1, (7, 7), 60)))
    assert bench.state.wake is not None and bench.state.wake.asked == {"a", "c"}
    bench.hear(VersionAnswered(version("c", 2, (5, 5), 60)))
    bench.hear(SendFailed(A, AskVersion.path, key(2), "timeout"))
    assert {fetch.peer for fetch in bench.all(Fetch)} == {"a", "c"}
    assert {peer: mark.number for peer, mark in bench.state.wake.fetched.items()} == {"a": 1, "c": 2}

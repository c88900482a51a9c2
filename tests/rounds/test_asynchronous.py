"""Every step of a job without common rounds stands in its table, whatever comes in whatever order."""

from __future__ import annotations

import contextlib
from random import Random
from typing import Any

import pytest

from flnet.errors import JobBusy, PeerError
from flnet.node.performer import restored_of
from flnet.params.params import Params, PeerId
from flnet.protocol.counts import EvaluationCounts, Measured, Scored
from flnet.protocol.effects import Answer, Average, CancelWork, Effect, Fetch, Publish, Save, Send, SetTimer, Train
from flnet.protocol.events import (
    Averaged,
    AveragingFailed,
    DataChanged,
    Event,
    Fetched,
    FetchFailed,
    HyperParamsEdited,
    Paused,
    PeerLost,
    PeerSeen,
    Restored,
    Resumed,
    RoundTriggered,
    SendFailed,
    SendRefused,
    SeriesStopped,
    TimerFired,
    Trained,
    TrainingFailed,
    Version,
    VersionAnswered,
    VersionReceived,
)
from flnet.protocol.messages import AskVersion, Triggered
from flnet.rounds.steps import ASYNCHRONOUS, Phase, draw
from flnet.store.base import SavedJob
from tests.helpers import key, params
from tests.rounds.helpers import Bench, asked, came, declaration, declined, prepared, refuses
from tests.rounds.scenarios import Lasting, kept
from tests.rounds.test_peer_versions import ALONE, AloneBench, version

SAID = dict(ALONE.stated())


class Walk:
    """One job that hears anything that can come, drawn by chance."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.bench = AloneBench()
        self.under_way: list[Event] = []
        self.numbers: list[int] = []

    def step(self) -> None:
        event = self._next()
        with contextlib.suppress(PeerError):
            self.bench.hear(event)
            self._note()
        self.numbers.append(self.bench.job.number)

    def _note(self) -> None:
        """What is under way now, and how it may end."""
        for train in self.bench.all(Train):
            done = Trained(train.key, self._some(), 3, 0.5)
            self.under_way.append(self.rng.choice((done, done, TrainingFailed(train.key, "chance"))))
        for average in self.bench.all(Average):
            done_ = Averaged(average.key, self._some())
            self.under_way.append(self.rng.choice((done_, AveragingFailed(average.key, "chance"))))
        for fetch in self.bench.all(Fetch):
            of = (fetch.key, fetch.peer, fetch.digest)
            self.under_way.append(self.rng.choice((Fetched(*of, self._some()), FetchFailed(*of, "chance"))))

    def _some(self) -> Params:
        return params(w=(self.rng.random(), 0))

    def _next(self) -> Event:
        rng, peer = self.rng, PeerId(self.rng.choice("acd"))
        if self.under_way and rng.random() < 0.4:
            return self.under_way.pop(rng.randrange(len(self.under_way)))
        told_version = version(peer, rng.randrange(4), (rng.random(), 0), run=rng.choice(("run 1", "run 2")))
        timers = [f"versions:{self.bench.job.number}"]
        averaging = self.bench.job.round.gathering if self.bench.job.round else None
        if averaging is not None:
            timers.append(averaging.timer)
        at = key(self.bench.job.number, "b") if self.bench.job.key else key(1, "b")
        return rng.choice(
            (
                RoundTriggered(rng.choice((1, 1, 2))),
                RoundTriggered(3, until="accuracy>=0.9"),
                VersionReceived(told_version, SAID),
                *(VersionAnswered(told_version),) * 4,
                SendFailed(peer, AskVersion.path, at, "chance"),
                SendRefused(peer, AskVersion.path, at, 503, "not_ready", "chance"),
                PeerSeen(peer),
                PeerLost(peer, "chance"),
                TimerFired(rng.choice(timers)),
                Paused(),
                Resumed(),
                SeriesStopped(),
                HyperParamsEdited({"e": 3}),
                DataChanged(declaration(), params(w=(0, 0)), rng.choice((0, 5))),
                asked(peer),
                came(peer),
                declined(peer),
            )
        )


@pytest.mark.parametrize("seed", range(40))
def test_any_order_of_events_keeps_to_the_table_and_numbers_never_go_back(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(150):
        walk.step()
    assert walk.numbers == sorted(walk.numbers)
    records = [record.key.number for record in walk.bench.job.history.records]
    assert records == sorted(set(records))


def test_each_phase_of_common_rounds_that_is_not_needed_is_not_in_the_table() -> None:
    used = set(Phase) - {Phase.ALIGNING, Phase.GATHERING, Phase.MEASURING, Phase.EXCHANGING}
    assert set(ASYNCHRONOUS) == used
    reached = {after for row in ASYNCHRONOUS.values() for ends in row.values() for after in ends}
    assert reached == used


def test_the_picture_shows_the_way_of_a_version() -> None:
    drawn = draw(ASYNCHRONOUS)
    assert "IDLE --> FETCHING: Resumed, RoundTriggered" in drawn
    assert "AVERAGING --> TRAINING: Averaged, AveragingFailed" in drawn


# How a version comes about without common rounds; specification section 12 (BrainTorrent), oracle O16.


A, C = PeerId("a"), PeerId("c")


def asking(*versions: Version, **more: Any) -> AloneBench:
    """Node b begins a version, and has these answers of its peers."""
    bench = AloneBench(**more)
    bench.hear(RoundTriggered())
    bench.answers(*versions)
    return bench


def trained_once(w: tuple[float, float] = (1, 1), examples: int = 10) -> AloneBench:
    """Node b with a version of its own, into which version 1 of c went."""
    bench = asking(version("a", 0), version("c", 1, (7, 7), 60))
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
    assert bench.w == [3, 0] and bench.job.number == 2
    assert bench.job.history.records[-1].outcome == "merged a v1, trained, now v2"
    assert bench.job.history.records[-1].contributors == ("a", "b")


def test_a_new_version_is_saved_with_what_went_into_it_before_anybody_hears_of_it() -> None:
    bench = asking(version("a", 7, (4, 0)), version("c", 4, (2, 0)))
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
    assert bench.job.history.records[-1].outcome == "merged nothing, for nobody had a newer model, trained, now v1"


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
    record = bench.job.history.records[-1]
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
    words = "the nodes do not agree on rounds: common to all nodes at a; of each node by itself at b"
    bench.hear(SendRefused(A, AskVersion.path, key(0, "b"), 422, "params_refused", words))
    assert any(words in told.text for told in bench.all(Publish))
    assert bench.phase is Phase.TRAINING


def test_a_model_that_cannot_be_fetched_is_merged_the_next_time() -> None:
    bench = asking(version("a", 3, (4, 0)), peers=("a",))
    fetch = bench.one(Fetch)
    bench.hear(FetchFailed(key(1, "b"), A, fetch.digest, "it was not there any more"))
    bench.train()
    assert bench.job.history.records[-1].missing == ("a",)
    assert "no newer model could be fetched" in bench.job.history.records[-1].outcome
    bench.hear(RoundTriggered())
    bench.answers(version("a", 3, (4, 0)))
    assert bench.one(Fetch).digest == fetch.digest


def test_what_is_not_here_in_time_is_left_out() -> None:
    bench = asking(version("a", 1, (4, 0)), version("c", 1, (2, 0)))
    timer = bench.all(SetTimer)[-1]
    fetch = next(fetch for fetch in bench.all(Fetch) if fetch.peer == A)
    bench.hear(Fetched(key(1, "b"), A, fetch.digest, params(w=(4, 0))))
    bench.hear(TimerFired(timer.name))
    assert [update.peer for update in bench.one(Average).updates] == ["a"]


def test_who_has_never_trained_adds_nothing_of_its_own() -> None:
    bench = asking(version("a", 1, (4, 0), 30), version("c", 0), w=(100, 100))
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
        assert bench.job.history.records[-1].contributors == (me,)


def test_a_model_far_from_all_others_is_refused() -> None:
    bench = asking(
        version("a", 1, (1, 0)), version("c", 1, (1, 1)), version("d", 1, (1e9, 0)), peers=("a", "c", "d")
    )
    bench.fetches(a=(1, 0), c=(1, 1), d=(1e9, 0))
    assert max(bench.merge()["w"].tolist()) == 1
    assert any("the update of d does not count" in told.text for told in bench.all(Publish))
    bench.train()
    record = bench.job.history.records[-1]
    assert record.contributors == ("a", "b", "c") and "left out: d" in record.outcome
    assert PeerId("d") not in bench.job.versions.merged


def test_distances_are_measured_from_where_the_own_training_began() -> None:
    bench = trained_once((8, 8))
    assert bench.job.versions.base is not None
    assert bench.job.versions.base["w"].tolist() == [7, 7]
    assert bench.job.screened_from is bench.job.versions.base


def test_a_merge_that_fails_leaves_the_own_model_to_train_from() -> None:
    bench = trained_once((1, 1))
    bench.hear(RoundTriggered())
    bench.answers(version("a", 1, (4, 0)), version("c", 1, (7, 7)))
    bench.fetches(a=(4, 0))
    bench.hear(AveragingFailed(key(2, "b"), "no memory"))
    assert bench.one(Train).params["w"].tolist() == [1, 1]
    bench.train()
    assert bench.job.history.records[-1].contributors == ("b",)
    assert A not in bench.job.versions.merged


def test_a_training_that_fails_makes_no_version_and_what_it_began_with_counts_as_not_merged() -> None:
    bench = trained_once((1, 1))
    bench.hear(RoundTriggered())
    bench.answers(version("a", 1, (4, 0)), version("c", 1, (7, 7)))
    bench.fetches(a=(4, 0))
    bench.merge()
    bench.hear(TrainingFailed(key(2, "b"), "no memory"))
    assert bench.phase is Phase.IDLE and bench.w == [1, 1] and not bench.all(Send)
    assert bench.job.held.own is not None and bench.job.held.own.key.number == 1
    assert A not in bench.job.versions.merged
    assert "training failed" in bench.job.history.records[-1].outcome


def test_a_series_goes_on_by_itself_and_a_person_ends_it() -> None:
    bench = AloneBench(peers=())
    bench.hear(RoundTriggered(rounds=3))
    bench.train()
    assert bench.job.number == 2 and bench.all(Train)
    bench.hear(SeriesStopped())
    bench.train()
    assert bench.phase is Phase.IDLE and bench.job.number == 2


def test_a_goal_is_decided_by_the_node_alone() -> None:
    bench = AloneBench()
    bench.hear(RoundTriggered(rounds=10, until="accuracy>=0.9"))
    for accuracy in (0.5, 0.8, 0.95):
        bench.answers(version("a", 0, (0, 0)), version("c", 0, (0, 0)))
        bench.train(accuracy=accuracy)
    assert bench.phase is Phase.IDLE and bench.job.number == 3
    assert (
        bench.job.history.records[-1].decision is not None
        and bench.job.history.records[-1].decision["over"] == "reached"
    )


def test_a_goal_is_decided_by_counts_on_validation_rows_where_there_are_some() -> None:
    """Of the test rows 90 in a hundred are right, of the validation rows 3 in 5 and then 4 in 5."""
    tested = Measured(accuracy=0.9, examples=100, counts=EvaluationCounts(right=90, examples=100))
    bench = AloneBench(peers=())
    bench.hear(RoundTriggered(rounds=10, until="accuracy>=0.7"))
    for right in (3, 4):
        (train,) = bench.all(Train)
        assert train.validates
        validation = Scored(right / 5, 5, right)
        bench.hear(Trained(train.key, params(w=(1, right)), 3, 0.9, tested=tested, validation=validation))
    decisions = [record.decision for record in bench.job.history.records]
    assert [of and (of["over"], of["accuracy"], of["basis"], of["rows"]) for of in decisions] == [
        (None, 0.6, "counts", "validation"),
        ("reached", 0.8, "counts", "validation"),
    ]
    bench.hear(RoundTriggered(rounds=10, until="accuracy>=0.7"))
    (train,) = bench.all(Train)
    bench.hear(Trained(train.key, params(w=(2, 2)), 3, 0.9, tested=tested))
    last = bench.job.history.records[-1].decision
    assert last is not None
    assert (last["over"], last["accuracy"], last["basis"], last["rows"]) == ("reached", 0.9, "counts", "test")
    bench.hear(RoundTriggered())
    assert not bench.all(Train)[0].validates  # without a goal nothing is decided


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
    assert bench.round.asked == {"a", "c"}
    bench.hear(VersionAnswered(version("c", 2, (5, 5), 60)))
    bench.hear(SendFailed(A, AskVersion.path, key(2), "timeout"))
    assert {fetch.peer for fetch in bench.all(Fetch)} == {"a", "c"}
    assert {peer: mark.number for peer, mark in bench.round.fetched.items()} == {"a": 1, "c": 2}


# Restarts of nodes without common rounds, and changes from one kind of rounds to the other.


class LastingAlone(AloneBench):
    """Keeps every Save, as a store would."""

    saved = SavedJob()

    def hear(self, event: Event) -> list[Effect]:
        super().hear(event)
        for save in self.all(Save):
            self.saved = kept(self.saved, save)
        return self.effects

    def restarted(self, run: str = "run b2") -> AloneBench:
        """The node after it was killed: it knows what was saved, and no peer yet."""
        return AloneBench(peers=(), first=[restored_of(self.saved)], w=(50, 50), run=run)


def with_two_versions() -> LastingAlone:
    bench = LastingAlone(peers=("a",))
    for number, w in ((1, (4, 0)), (2, (6, 0))):
        bench.hear(RoundTriggered())
        bench.answers(version("a", number, w))
        bench.fetches(a=w)
        bench.merge()
        bench.train((number, number), 20)
    return bench


def test_versions_outlive_a_restart_and_nothing_is_merged_twice() -> None:
    bench = with_two_versions()
    again = bench.restarted()
    assert again.phase is Phase.IDLE and again.w == [2, 2] and again.job.number == 2
    assert again.job.held.own is not None and again.job.held.own.examples == 20
    assert again.job.versions.merged == bench.job.versions.merged
    again.hear(PeerSeen(A))
    told = again.said(AskVersion)
    assert (told.round, told.run, told.digest) == (2, "run b2", bench.job.versions.own.mark.digest)
    again.hear(RoundTriggered())
    again.answers(version("a", 2, (6, 0)))
    assert not again.all(Fetch) and again.job.number == 3


def test_a_version_under_way_is_begun_again_under_its_number() -> None:
    bench = with_two_versions()
    bench.hear(RoundTriggered(rounds=2))
    bench.answers(version("a", 3, (8, 0)))
    again = bench.restarted()
    assert again.job.number == 3 and again.phase is Phase.TRAINING
    again.train()
    assert again.job.number == 4  # the second one that was asked for


def test_a_pause_ends_the_training_of_a_version_which_is_made_when_the_job_is_resumed() -> None:
    bench = with_two_versions()
    bench.hear(RoundTriggered())
    bench.answers(version("a", 0, (0, 0)))
    assert bench.phase is Phase.TRAINING
    ended = bench.one(Train)
    held = bench.w
    bench.hear(Paused())
    assert (bench.phase, bench.one(CancelWork)) == (Phase.IDLE, CancelWork(ended.key, at_once=True))
    assert (bench.w, bench.job.records()[-1]["outcome"]) == (
        held,
        "a person ended the training that was under way; the model stays as it was",
    )
    assert bench.hear(Trained(ended.key, params(w=[8, 8]), 3, 0.9)) == []
    again = bench.restarted()
    assert (again.phase, again.all(Train)) == (Phase.IDLE, [])
    again.hear(Resumed())
    assert again.one(Train).key.number == ended.key.number + 1


def test_a_pause_while_versions_are_fetched_or_merged_begins_no_training() -> None:
    bench = with_two_versions()
    bench.hear(RoundTriggered())
    bench.hear(Paused())
    assert (bench.phase, bench.all(CancelWork)) == (Phase.IDLE, [])
    bench.answers(version("a", 0, (0, 0)))
    assert (bench.phase, bench.all(Train)) == (Phase.IDLE, [])


def test_a_pause_keeps_what_was_asked_for_over_a_restart() -> None:
    bench = with_two_versions()
    bench.hear(RoundTriggered())
    bench.hear(Paused())
    again = bench.restarted()
    assert again.phase is Phase.IDLE
    assert again.round.open_record is None  # the version begins with a new record
    again.hear(Resumed())
    assert again.one(Train).params["w"].tolist() == [2, 2]


def test_a_goal_goes_on_after_a_restart() -> None:
    bench = LastingAlone(peers=())
    bench.hear(RoundTriggered(rounds=9, until="accuracy>=0.9, within 3600"))
    bench.train(accuracy=0.5)
    again = bench.restarted()
    again.train(accuracy=0.95)
    assert again.phase is Phase.IDLE and again.job.series.stopping.series is None


def test_a_damaged_record_of_versions_is_told_and_the_node_starts_again() -> None:
    saved = with_two_versions().saved
    damaged = Restored({**saved.snapshot, "versions": {"heard": 3}}, saved.params, saved.private, saved.sent)
    again = AloneBench(peers=(), first=[damaged], w=(50, 50))
    assert again.phase is Phase.IDLE and again.w == [50, 50]


def test_a_lost_disk_begins_at_a_version_that_is_not_mistaken_for_an_old_one() -> None:
    bench = with_two_versions()
    peer = AloneBench("c", ("b",))
    before = bench.said(AskVersion)
    peer.hear(RoundTriggered())
    peer.answers(version("b", before.round, (2, 2), run=before.run))
    peer.fetches(b=(2, 2))
    peer.merge()
    peer.train()
    restarted = AloneBench(peers=(), w=(50, 50), run="run b2")
    restarted.hear(RoundTriggered())
    restarted.train((9, 9))
    assert restarted.job.number == 1
    peer.hear(RoundTriggered())
    peer.answers(version("b", 1, (9, 9), run="run b2"))
    assert len(peer.all(Fetch)) == 1


def test_after_common_rounds_the_average_held_is_the_first_version() -> None:
    bench = Lasting()
    bench.through_round()
    held = bench.w
    alone = AloneBench(peers=("a",), first=[restored_of(bench.saved)], w=(50, 50))
    assert alone.w == held and alone.phase is Phase.IDLE
    assert alone.said(AskVersion).digest == bench.job.held.current.shared.digest
    alone.hear(RoundTriggered())
    assert alone.job.number == bench.job.number + 1


def test_an_open_common_round_is_left_and_so_is_a_version_under_way() -> None:
    bench = Lasting()
    bench.hear(RoundTriggered())
    alone = AloneBench(peers=(), first=[restored_of(bench.saved)])
    assert alone.phase is Phase.IDLE
    under_way = LastingAlone(peers=())
    under_way.hear(RoundTriggered())
    common = Bench(prepare=False)
    common.hear(restored_of(under_way.saved))
    common.hear(prepared())
    assert common.phase is Phase.IDLE and not common.all(Send)

"""The privacy budget of a job: counted and saved before an update leaves, kept over restarts, and never overspent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from flnet.aggregation.base import RoundStart
from flnet.aggregation.fed_avg import fed_avg
from flnet.algorithms.differential_privacy import Privacy
from flnet.errors import JobBusy, PeerError
from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.effects import Average, CancelTimer, Effect, Evaluate, Save, Send, SetTimer, Train
from flnet.protocol.events import (
    Averaged,
    ClaimReceived,
    Evaluated,
    Event,
    Paused,
    PeerLost,
    PeerSeen,
    Restored,
    Resumed,
    RoundTriggered,
    SendRefused,
    TimerFired,
    Trained,
    TrainingFailed,
)
from flnet.protocol.messages import ModelParams, StartTraining
from flnet.protocol.updates import NoisyRelease
from flnet.rounds.job import Job
from flnet.rounds.privacy_plan import PrivacyPlan, Spent
from flnet.rounds.settings import Rules
from flnet.rounds.steps import Phase
from tests.helpers import key, params
from tests.rounds.helpers import Bench, asked, came, claim, declined, prepared, refuses, settings
from tests.rounds.scenarios import Lasting

NODE = NoisyRelease("node", 2.0)


def cost(spent: Spent) -> float:
    """One for each release with a noise multiplier of 2, more with less noise."""
    return sum(count * release.steps * 2 / release.noise_multiplier for release, count in spent)


def plan(most: float = 2, level: Any = "node", budget: str = "main") -> PrivacyPlan:
    return PrivacyPlan(Privacy(level, most, 1e-5), 20, cost, lambda rate, steps: 2.0, budget)


def rules(most: float = 2, staleness: int = 0, **more: Any) -> Rules:
    return Rules(staleness=staleness, privacy=plan(most, **more))


class Private(Lasting):
    """A job whose updates have noise, unless a test says otherwise."""

    def train(
        self,
        w: Sequence[float] = (2, 4),
        examples: int = 1,
        accuracy: float = 0.5,
        release: NoisyRelease | None = NODE,
    ) -> list[Effect]:
        assert self.job.key is not None
        return self.hear(Trained(self.job.key, params(w=w), examples, accuracy, release=release))

    def play(self, number: int, w: float) -> None:
        """A whole round in which this node trains."""
        self.hear(RoundTriggered())
        self.train((w, w))
        self.end(number)

    def end(self, number: int) -> None:
        """The updates of the peers come, and the round goes to its end."""
        self.end_but_last(number)
        assert self.phase is Phase.IDLE

    def end_but_last(self, number: int) -> None:
        """The same, where another round may follow."""
        for name in "ac":
            self.hear(came(name, number, "b"))
        self.average()
        self.measure()
        for name in "ac":
            self.hear(ClaimReceived(claim(name, number, accuracy=0.1)))

    def begin_again(self, changed: Rules) -> list[Effect]:
        """Restart the node with other settings."""
        self.rules = changed
        return self.restart()

    def slowed(self) -> Private:
        """Of this node it is known that it takes ten times as long as its peers."""
        for name, seconds in (("a", 1.0), ("b", 10.0), ("c", 1.0)):
            self.job.peers.paces.note(PeerId(name), seconds, 1)
        return self

    @property
    def spent(self) -> float | None:
        view = self.job.view().privacy
        assert view is not None
        return view.spent

    @property
    def updates(self) -> int:
        """How many updates the state on the disk has counted."""
        return counted(self.saved.snapshot)


def counted(snapshot: Any) -> int:
    """How many updates a saved state has counted in all budgets."""
    accounts = (snapshot.get("privacy") or {"accounts": {}})["accounts"].values()
    return sum(account["bare"] + sum(row[-1] for row in account["releases"]) for account in accounts)


# What is counted, and when.


def test_an_update_is_counted_in_the_save_before_it_is_sent() -> None:
    job = Private(rules=rules())
    job.hear(RoundTriggered())
    effects = job.train()
    saves = [place for place, effect in enumerate(effects) if isinstance(effect, Save)]
    sends = [place for place, effect in enumerate(effects) if isinstance(effect, Send)]
    assert saves[0] < sends[0] and job.one(Send).params == params(w=(2, 4))
    assert (job.updates, job.spent) == (1, 1.0)
    record = job.job.record_of(0)
    assert record is not None and record.privacy is not None
    assert (record.privacy["spent"], record.privacy["noise_multiplier"]) == (1.0, 2.0)


def test_a_job_that_promises_nothing_shows_nothing() -> None:
    bench = Bench().through_round()
    assert bench.job.view().privacy is None
    assert "privacy" not in bench.job.records()[0]


def test_sending_the_same_update_again_costs_nothing() -> None:
    job = Private(rules=rules())
    job.hear(RoundTriggered())
    job.train()
    job.hear(PeerLost(PeerId("a"), "away"))
    job.meet("a")
    job.restart()
    job.meet("a")
    assert job.said(ModelParams).examples == 1
    assert (job.updates, job.spent) == (1, 1.0)


def test_a_restart_before_the_save_has_sent_nothing_and_the_training_done_again_is_counted_once() -> None:
    job = Private(rules=rules())
    job.hear(RoundTriggered())
    before = job.saved
    job.train()
    job.saved = before  # killed before this was on the disk, and so before the update left
    job.restart()
    assert job.all(Train) and job.spent == 0.0
    job.train((7, 7))
    assert (job.updates, job.spent) == (1, 1.0)


def test_an_update_that_is_a_round_late_is_counted_once_when_it_is_sent() -> None:
    job = Private(rules=rules(staleness=2)).slowed()
    job.hear(asked("a"))
    assert job.said(ModelParams).late
    for name in "ac":
        job.hear(came(name, 0))
    job.average()
    job.hear(Trained(key(0), params(w=(3, 3)), 4, 0.5, seconds=10.0, release=NODE))
    assert job.updates == 0
    job.hear(asked("a", 1))
    assert job.said(ModelParams).staleness == 1
    assert (job.updates, job.spent) == (1, 1.0)


def test_a_late_update_that_is_sent_again_in_another_start_of_the_round_is_counted_once() -> None:
    job = Private(rules=rules(1, staleness=2)).slowed()
    job.hear(asked("a"))
    for name in "ac":
        job.hear(came(name, 0))
    job.average()
    job.hear(Trained(key(0), params(w=(3, 3)), 4, 0.5, seconds=10.0, release=NODE))
    job.hear(asked("c", 1))
    first = job.one(Send).params
    job.hear(asked("a", 1))
    assert job.one(Send).params == first == params(w=(3, 3))
    assert (job.updates, job.spent) == (1, 1.0)


def test_a_late_update_that_the_budget_does_not_allow_is_not_sent() -> None:
    job = Private(rules=rules(staleness=2)).slowed()
    job.hear(asked("a"))
    for name in "ac":
        job.hear(came(name, 0))
    job.average()
    job.hear(Trained(key(0), params(w=(3, 3)), 4, 0.5, seconds=10.0, release=replace(NODE, steps=5)))
    job.hear(asked("a", 1))
    assert "its privacy budget is spent" in (job.said(ModelParams).declined or "")
    assert job.updates == 0 and not any(effect.params for effect in job.all(Send))


# The end of the budget.


def test_a_node_whose_budget_is_spent_sits_out_before_it_trains_and_says_why_and_the_others_go_on() -> None:
    job = Private(rules=rules(2))
    job.play(0, 1.0)
    job.play(1, 2.0)
    view = job.job.view().privacy
    assert view is not None and (view.spent, view.rounds_left, view.updates) == (2.0, 0, 2)
    job.hear(asked("a", 2))
    assert not job.all(Train)
    why = "its privacy budget is spent: epsilon 2 of 2, and 3 with one more update"
    assert job.said(ModelParams).declined == why
    assert job.job.view().sits_out == why
    job.hear(came("a", 2))
    job.hear(came("c", 2))
    job.average()
    assert job.w == [1.0, 1.0] and job.updates == 2


def test_a_node_whose_budget_is_spent_starts_no_rounds_and_says_why() -> None:
    job = Private(rules=rules(1))
    job.play(0, 1.0)
    refusal = refuses(job, RoundTriggered(), JobBusy)
    assert (
        str(refusal)
        == "T starts no rounds here: its privacy budget is spent: epsilon 1 of 1, and 2 with one more update"
    )


def test_a_series_of_a_node_goes_on_for_the_others_when_its_budget_is_spent() -> None:
    job = Private(rules=rules(1))
    job.hear(RoundTriggered(2))
    job.train()
    job.end_but_last(0)
    assert job.phase is Phase.GATHERING and job.said(StartTraining).round == 1
    assert "its privacy budget is spent" in (job.said(ModelParams).declined or "")


def test_an_update_that_cost_more_than_planned_is_not_sent() -> None:
    job = Private(rules=rules(2))
    job.hear(RoundTriggered())
    job.train(release=NoisyRelease("node", 0.5))
    assert "epsilon 0 of 2, and 4 with one more update" in (job.said(ModelParams).declined or "")
    assert job.updates == 0 and job.job.held.own is None


def test_an_update_without_noise_is_not_sent() -> None:
    job = Private(rules=rules(2))
    job.hear(RoundTriggered())
    job.train(release=None)
    assert "no noise was added to its update" in (job.said(ModelParams).declined or "")
    assert job.updates == 0


def test_rounds_left_are_counted_with_the_noise_of_the_next_one() -> None:
    job = Private(rules=rules(9.5))
    view = job.job.view().privacy
    assert view is not None and (view.rounds_left, view.noise_multiplier, view.spent) == (9, 2.0, 0.0)


def test_a_training_that_was_under_way_is_not_begun_again_when_the_budget_is_smaller_now() -> None:
    job = Private(rules=rules(2))
    job.play(0, 1.0)
    job.hear(RoundTriggered())
    assert job.all(Train)
    job.begin_again(rules(1))
    assert not job.all(Train)
    assert "its privacy budget is spent: epsilon 1 of 1" in job.job.view().sits_out


# What is kept, and what another setting means.


def test_the_budget_survives_restarts_and_other_data() -> None:
    job = Private(rules=rules(3))
    job.play(0, 1.0)
    job.restart()
    assert job.spent == 1.0
    job.begin_again(rules(5))
    assert job.spent == 1.0


def test_updates_without_noise_end_the_budget_in_which_they_left_and_another_name_begins_one() -> None:
    job = Private(rules=rules(3))
    job.play(0, 1.0)
    job.begin_again(Rules())
    job.meet("a")
    job.hear(RoundTriggered())
    job.train((8, 8), release=None)
    assert job.one(Send).params is not None  # nothing is promised
    job.begin_again(rules(3))
    assert job.spent is None
    assert "updates left this node without the noise" in job.job.budget.exhausted
    job.begin_again(rules(3, budget="second"))
    assert job.published["privacy_budget_begun"].startswith("a new privacy budget of T begins: second")
    assert job.spent == 0.0 and not job.job.budget.exhausted
    job.restart()
    assert "privacy_budget_begun" not in job.published
    job.begin_again(rules(3))
    assert job.spent is None  # the other one is kept as it was


def test_noise_for_rows_hides_no_node_and_noise_for_a_node_hides_rows_half_as_well() -> None:
    rows = NoisyRelease("rows", 2.0, 0.1, 1)
    job = Private(rules=rules(9, level="rows"))
    job.hear(RoundTriggered())
    job.train(release=rows)
    assert job.spent == 1.0
    job.begin_again(rules(9))
    assert job.spent is None
    other = Private(rules=rules(9))
    other.play(0, 1.0)
    other.begin_again(rules(9, level="rows"))
    assert other.spent == 2.0


def test_a_state_that_cannot_be_read_ends_the_budget() -> None:
    job = Private(rules=rules(3))
    job.play(0, 1.0)
    job.saved = replace(job.saved, snapshot={**job.saved.snapshot, "privacy": {"accounts": {"main": {}}}})
    job.restart(prepare=False)
    assert "state_damaged" in job.published
    job.hear(prepared(w=(50, 50)))
    assert job.spent is None


@pytest.mark.parametrize("budget", ["main", "second"])
def test_a_state_that_the_store_cannot_read_or_had_to_repair_ends_the_budget(budget: str) -> None:
    job = Private(rules=rules(3, budget=budget))
    job.play(0, 1.0)
    repaired = {name: value for name, value in job.saved.snapshot.items() if name != "privacy"}
    for restored in (Restored({}, is_lost=True), Restored(repaired)):
        other = Private(rules=rules(3, budget=budget))
        other.job = Job(settings("b", other.rules))
        other.hear(restored)
        other.hear(prepared(w=(50, 50)))
        assert other.spent is None


def test_a_state_of_an_earlier_version_that_was_in_rounds_counts_as_updates_without_noise() -> None:
    job = Private(rules=Rules())
    job.hear(RoundTriggered())
    job.train(release=None)
    old = {name: value for name, value in job.saved.snapshot.items() if name != "privacy"}
    job.saved = replace(job.saved, snapshot=old)
    job.begin_again(rules(3))
    assert job.spent is None
    fresh = Private(rules=rules(3))
    fresh.saved = replace(job.saved, snapshot={**old, "round": -1, "own": None})
    fresh.restart()
    assert fresh.spent == 0.0


def test_a_trainer_whose_updates_are_no_changes_of_a_model_takes_no_part() -> None:
    job = Bench(prepare=False, rules=rules())
    job.hear(prepared(merging="kmeans"))
    assert job.phase is Phase.NO_DATA
    assert "made for the aggregation rule kmeans" in str(job.job.error)


# No path sends what was not counted.


class World:
    """A job with its peers, in which anything may happen at any time; it checks each update that leaves."""

    def __init__(self) -> None:
        self.bench = Private(rules=rules(3, staleness=2))
        self.work: list[Train | Average | Evaluate] = []
        self.timers: set[str] = set()
        self.sent: set[Digest] = set()
        self.noised = self.trained = 0

    def hear(self, event: Event) -> None:
        try:
            effects = self.bench.hear(event)
        except PeerError:
            return
        self.look(effects)

    def look(self, effects: Sequence[Effect]) -> None:
        """Note what is to be done, and check what is sent."""
        for effect in effects:
            match effect:
                case Train() | Average() | Evaluate():
                    self.work.append(effect)
                case SetTimer(name):
                    self.timers.add(name)
                case CancelTimer(name):
                    self.timers.discard(name)
                case Send(_, ModelParams(), Params() as update):
                    self.sent.add(update.digest)
        budgets = len((self.bench.saved.snapshot.get("privacy") or {"accounts": {}})["accounts"])
        assert len(self.sent) <= self.bench.updates, (self.sent, self.bench.saved.snapshot, budgets)
        promise = self.bench.job.settings.rules.privacy
        spent = self.bench.spent if promise else None
        assert spent is None or promise is None or spent <= promise.privacy.epsilon

    @property
    def number(self) -> int:
        return self.bench.job.number

    def begin_again(self, changed: Rules) -> None:
        """Restart: what was under way is lost."""
        self.work, self.timers = [], set()
        self.look(self.bench.begin_again(changed))
        for name in "ac":
            self.look(self.bench.meet(name))

    def crash(self) -> None:
        """Killed before the last step was saved; what it wanted to send did not leave."""
        sent, before = set(self.sent), self.bench.saved
        if self.work:
            self.finish(-1)
        self.sent, self.bench.saved = sent, before
        self.begin_again(self.bench.rules or Rules())

    def finish(self, place: int = 0) -> None:
        """End one of the works that are under way."""
        if not self.work:
            return
        effect = self.work.pop(place)
        match effect:
            case Train(of):
                self.trained += 1
                promise = self.bench.job.settings.rules.privacy
                release = NoisyRelease(promise.privacy.level, 2.0) if promise else None
                self.hear(Trained(of, params(w=(self.trained, 0)), 1, 0.5, seconds=40.0, release=release))
            case Average(of, updates):
                if updates:
                    start = RoundStart(self.bench.job.held.current.schema, Params())
                    self.hear(Averaged(of, fed_avg().merge(None, start, updates).params))
            case Evaluate(of, _, shared, split=split):
                self.hear(Evaluated(of, shared.digest, 0.5, split=split))

    def fire(self) -> None:
        if self.timers:
            name = min(self.timers)
            self.timers.discard(name)
            self.hear(TimerFired(name))

    def actions(self) -> list[Callable[[], None]]:
        """All that may happen next."""
        number, current = self.number, self.bench.job.key
        by = current.initiator if current else "a"
        refused = SendRefused(PeerId("a"), ModelParams.path, current or key(0), 409, "stale_round", "late")
        events: list[Event] = [
            RoundTriggered(),
            asked("a", number + 1),
            asked("a", max(number, 0)),
            came("a", max(number, 0), by),
            came("c", max(number, 0), by),
            came("a", number + 1, "a"),
            declined("c", max(number, 0), by),
            claim_of("a", number),
            PeerLost(PeerId("a"), "away"),
            PeerSeen(PeerId("a")),
            PeerSeen(PeerId("c")),
            Paused(),
            Resumed(),
            refused,
        ]
        changes = [
            rules(3, staleness=2),
            Rules(staleness=2),
            rules(9),
            rules(3, level="rows"),
            rules(2, budget="other"),
        ]
        return [
            *(lambda event=event: self.hear(event) for event in events),
            self.finish,
            self.finish,
            self.finish,
            self.fire,
            self.crash,
            self.fail,
            *(lambda change=change: self.begin_again(change) for change in changes),
        ]

    def fail(self) -> None:
        """A training under way fails."""
        if self.work and isinstance(self.work[0], Train):
            self.hear(TrainingFailed(self.work.pop(0).key, "no memory"))


def claim_of(name: str, number: int) -> ClaimReceived:
    return ClaimReceived(claim(name, max(number, 0), accuracy=0.1))


@given(st.lists(st.integers(0, 24), max_size=60))
@hypothesis_settings(max_examples=300, deadline=None)
def test_no_path_sends_an_update_that_was_not_counted_and_saved(steps: list[int]) -> None:
    world = World()
    world.bench.slowed()
    for step in steps:
        actions = world.actions()
        actions[step % len(actions)]()

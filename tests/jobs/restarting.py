"""A job on the bench whose node can be killed: what it saved goes to the job that takes its place."""

from __future__ import annotations

from collections.abc import Sequence

from flnet.effects import Effect, Save
from flnet.events import Event, Paused, PeerSeen, Restored, Resumed, RoundTriggered, TrainingFailed
from flnet.jobs import Job, Rules
from flnet.node.keeper import restored_of
from flnet.params import PeerId, TrainerId
from flnet.store import SavedJob
from tests.helpers import key, peer
from tests.jobs.helpers import WAITS, Bench, came, declined, prepared


class Lasting(Bench):
    """Keeps every Save, as a store would."""

    def __init__(self, me: str = "b", peers: Sequence[str] = ("a", "c"), rules: Rules | None = None) -> None:
        self.saved, self.rules = SavedJob(), rules
        super().__init__(me, peers, rules=rules)

    def hear(self, event: Event) -> list[Effect]:
        super().hear(event)
        for save in self.all(Save):
            self.saved = kept(self.saved, save)
        return self.effects

    def restart(self, prepare: bool = True) -> list[Effect]:
        """Kill the node, and start it again: it knows what was saved, and no peer yet."""
        self.job = Job(peer(str(self.state.my_id)), TrainerId("T"), WAITS, rules=self.rules)
        self.state = self.job.state
        self.hear(restored_of(self.saved))
        return self.hear(prepared(w=(50, 50))) if prepare else self.effects

    def meet(self, name: str) -> list[Effect]:
        """A peer is reachable (again)."""
        return self.hear(PeerSeen(PeerId(name)))


def kept(saved: SavedJob, save: Save) -> SavedJob:
    """What is kept after this Save."""
    return saved.then(SavedJob.of(save))


def _earlier(*events: str) -> Restored:
    bench = Lasting(peers=["a"])
    bench.hear(RoundTriggered())
    for event in events:
        if event == "trained":
            bench.train()
        elif event == "came":
            bench.hear(came("a", 0, "b"))
        else:
            bench.average()
    return restored_of(bench.saved)


def _goes_on(*events: str) -> list[Event]:
    return [_earlier(*events), prepared()]


def _a_series_goes_on() -> list[Event]:
    """A series that a pause had held up goes on when the peer of then is back."""
    bench = Lasting(peers=["a"])
    for event in (RoundTriggered(2), Paused(), TrainingFailed(key(0, "b"), "no memory"), declined("a", 0, "b")):
        bench.hear(event)
    return [restored_of(bench.saved), prepared(), Resumed(), PeerSeen(PeerId("a"))]


# What a job hears after a restart, so that every step out of LOADING that only a restart takes is seen.
RESTARTS = [
    _goes_on(),
    _goes_on("trained"),
    _goes_on("trained", "came"),
    _goes_on("trained", "came", "averaged"),
    _a_series_goes_on(),
]

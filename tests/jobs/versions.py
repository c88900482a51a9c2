"""A job without common rounds on the bench."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flnet.effects import Average, Fetch
from flnet.events import Averaged, Event, Fetched, Mark, PeerSeen, Prepared, Version, VersionAnswered
from flnet.jobs import AsynchronousJob, Rules
from flnet.params import Params, PeerId, RoundKey, TrainerId, Update
from flnet.screening import USUAL, Screening
from flnet.strategies import RoundStart, fed_avg
from tests.helpers import params, peer
from tests.jobs.helpers import WAITS, Bench, declaration

ALONE = Rules(asynchronous=True)


def version(
    by: str, number: int = 1, w: Sequence[float] = (4, 0), examples: int = 30, run: str = "run 1"
) -> Version:
    """A version of a peer, whose parameters are `w`."""
    update = Update(PeerId(by), RoundKey(number, PeerId(by)), Params(), examples if number else 0)
    return Version(Mark(run, number, params(w=w).digest), update)


class AloneBench(Bench):
    """A job, by default "b" with the peers "a" and "c", that knows no common rounds."""

    def __init__(
        self,
        me: str = "b",
        peers: Sequence[str] = ("a", "c"),
        first: Sequence[Event] = (),
        w: Sequence[float] = (0, 0),
        run: str = "run b",
        **declared: Any,
    ) -> None:
        """Args:
        first: what it hears before the trainer is loaded.
        """
        self.job = AsynchronousJob(peer(me), TrainerId("T"), WAITS, rules=ALONE, run=run)
        self.state = self.job.state
        self.effects, self.published = [], []
        for event in (*first, *(PeerSeen(PeerId(name)) for name in peers)):
            self.hear(event)
        self.hear(Prepared(declaration(**declared), params(w=w)))
        self.state.versions.under_way.clear()  # the first news has come through

    def answers(self, *versions: Version) -> None:
        """Peers answer the question with their versions; all earlier news has come through."""
        for one in versions:
            self.state.versions.under_way.pop(one.update.peer, None)
            self.hear(VersionAnswered(one))

    def fetches(self, **models: Sequence[float]) -> None:
        """All models that the last event asked for come; `models` by peer."""
        key = self.state.key
        assert key is not None
        for fetch in self.all(Fetch):
            self.hear(Fetched(key, fetch.peer, fetch.digest, params(w=models[fetch.peer])))

    def merge(self) -> Params:
        """Carry out the merge that the last event asked for, screened as by a node; what came of it."""
        effect, model = self.one(Average), self.state.model
        assert model is not None
        screening = Screening(USUAL, self.state.screened_from, model.schema)
        taken, refused = screening.take(effect.updates), screening.refused()
        counting = [update for update in taken if update.peer not in refused]
        merged = fed_avg().merge(None, RoundStart(model.schema, Params()), counting).params
        self.hear(Averaged(effect.key, merged, refused=refused))
        return merged

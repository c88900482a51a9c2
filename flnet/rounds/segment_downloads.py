"""Downloads segments by their digest, and keeps all that are here: equal digests are equal segments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from flnet.params.params import Digest, Params, PeerId, Schema
from flnet.protocol.effects import Effect, Fetch, FetchSegments
from flnet.protocol.events import Event, Fetched
from flnet.protocol.segments import MOST_TOGETHER
from flnet.protocol.updates import RoundKey
from flnet.rounds.download import ParamsDownload


def together(effects: Iterable[Effect]) -> list[Effect]:
    """The same effects, with one request for all the segments that are downloaded from the same peer."""
    left, fetches = list[Effect](), dict[PeerId, list[Fetch]]()
    for effect in effects:
        if isinstance(effect, Fetch) and effect.form is not None:
            fetches.setdefault(effect.peer, []).append(effect)
        else:
            left.append(effect)
    each_peer = (
        each[at : at + MOST_TOGETHER] for each in fetches.values() for at in range(0, len(each), MOST_TOGETHER)
    )
    return [*left, *map(_one_request, each_peer)]


def _one_request(fetches: Sequence[Fetch]) -> Effect:
    first = fetches[0]
    if len(fetches) == 1:
        return first
    return FetchSegments(
        first.key, first.peer, {each.digest: each.form for each in fetches if each.form is not None}
    )


class SegmentDownloads:
    """The segments of one round that are here, those on their way, and those that nobody could serve."""

    def __init__(self, key: RoundKey, me: PeerId, patience: float) -> None:
        """Args:
        patience: seconds for each download.
        """
        self._key, self._me, self._patience = key, me, patience
        self._here: dict[Digest, Params] = {}
        self._running: dict[Digest, ParamsDownload] = {}
        self._resting: set[Digest] = set()  # what could not be downloaded, until it is tried again

    @property
    def timers(self) -> tuple[str, ...]:
        """The names of the timers of the downloads."""
        return tuple(each.timer for each in self._running.values())

    @property
    def is_any_resting(self) -> bool:
        """Whether something could not be downloaded, and waits for `wake`."""
        return bool(self._resting)

    def find(self, digest: Digest) -> Params | None:
        """What has this digest, if it is here."""
        return self._here.get(digest)

    def awaits(self, digest: Digest) -> bool:
        """Whether this is being downloaded."""
        return digest in self._running

    def form_of(self, digest: Digest) -> Schema | None:
        """The form of a segment that is being downloaded; None for anything else."""
        download = self._running.get(digest)
        return None if download is None else download.form

    def keep(self, params: Params) -> None:
        """Keep what this node made itself."""
        self._here[params.digest] = params

    def start(
        self, digest: Digest, sources: Collection[PeerId], form: Schema | None, first: PeerId | None = None
    ) -> list[Effect]:
        """Download what has this digest, unless that is under way or has just failed.

        Args:
            sources: peers that may hold it, this node perhaps among them.
            form: of a segment; None for a whole model.
            first: who is asked first, as it made what is wanted; the others may still be downloading it.
        """
        if digest in self._running or digest in self._resting:
            return []
        name = f"segment:{digest[:16]}"
        download = ParamsDownload(
            self._key, digest, name, self._me, sources, self._patience, None, form, first=first
        )
        effects = download.start()
        if download.is_over:  # nobody has it now
            self._resting.add(digest)
        else:
            self._running[digest] = download
        return effects

    def receive(self, event: Event) -> list[Effect]:
        """Handle the answer of a peer, or the timer of a download."""
        effects = [effect for each in list(self._running.values()) for effect in each.receive(event)]
        if isinstance(event, Fetched):
            self._here[event.digest] = event.params
        self._resting |= {digest for digest, each in self._running.items() if each.failure is not None}
        self._running = {digest: each for digest, each in self._running.items() if not each.is_over}
        return effects

    def wake(self) -> None:
        """Let what could not be downloaded be tried again."""
        self._resting = set()

    def end(self) -> None:
        """Download nothing more; what is here stays."""
        self._running = {}

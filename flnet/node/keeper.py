"""Keeps the states of jobs in the store before anything is promised, and says what may be promised when it cannot.

A save that fails is tried again with the next one, and with the next word of a peer that waits for it. Until then
the rounds go on in memory: this node acknowledges no update, and hands out none of its own; see docs/state.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flnet.effects import Save, Send
from flnet.errors import LocalError, NotReady
from flnet.events import Event, Restored, UpdateOffered, UpdateReceived, VersionReceived
from flnet.jobs import HELD_ROUNDS
from flnet.messages import AskVersion, ModelParams
from flnet.params import PeerId, TrainerId
from flnet.store import KeptModel, SavedJob, Store

log = logging.getLogger(__name__)

Tell = Callable[[str, str], object]
RETRY_SECONDS = 10.0  # until what could not be saved is tried again, if nothing else is saved before


class Keeper:
    """Saves, and remembers what could not be saved."""

    def __init__(self, store: Store, tell: Tell) -> None:
        """Args:
        tell: a kind and a sentence for people.
        """
        self._store, self._tell = store, tell
        self._unsaved: dict[TrainerId, SavedJob] = {}
        self._given: dict[TrainerId, SavedJob] = {}  # to the store last, until it answers; with all unsaved
        self._peers: dict[str, str] = {}  # addresses by id, as they are kept
        self.keys: dict[str, str] = {}  # public keys by id, likewise
        self.trouble = ""  # why state cannot be kept; empty while all is well

    async def load(self, trainer: TrainerId) -> Restored | None:
        """What an earlier run kept of this job, if anything."""
        try:
            saved = await self._store.load(trainer, HELD_ROUNDS)
        except LocalError as exc:
            self._tell("state_damaged", f"what was kept of {trainer} cannot be read: {exc}")
            return None
        finally:
            self.tell_notices()
        return None if saved is None else restored_of(saved)

    def tell_notices(self) -> None:
        """Tell people what the store found damaged."""
        for notice in self._store.notices():
            log.warning("%s", notice)
            self._tell("state_damaged", notice)

    async def save(self, trainer: TrainerId, *effects: Save, models: Sequence[KeptModel] = ()) -> bool:
        """Keep the state after these, as one; whether that worked.

        Args:
            models: that the job came to hold with them.
        """
        job = self._unsaved.get(trainer)
        for one in effects:
            job = SavedJob.of(one) if job is None else job.then(SavedJob.of(one))
        job = job.beside(*job.models, *models) if job and models else job
        return job is None or await self._try(trainer, job)

    async def addresses(self) -> Sequence[str]:
        """Where the peers were that an earlier run knew: they lead to the mesh without any bootstrap peer."""
        try:
            peers = await self._store.load_peers()
        except LocalError as exc:
            self.failed(str(exc))
            return ()
        self._peers = {str(peer["id"]): str(peer["address"]) for peer in peers if peer["address"]}
        self.keys = {str(peer["id"]): str(peer["key"]) for peer in peers if peer.get("key")}
        return tuple(self._peers.values())

    async def keep_peers(self, peers: Sequence[Mapping[str, Any]], keys: Mapping[PeerId, str]) -> None:
        """Keep where the peers are that did not leave, and whose name is whose, if that is news.

        Without any peer, the known addresses stay known.
        """
        known = {str(peer["id"]): str(peer["address"]) for peer in peers if peer["state"] != "left"}
        now, before = (known or self._peers, {str(id): key for id, key in keys.items()}), (self._peers, self.keys)
        if now == before:
            return
        self._peers, self.keys = at, kept = now
        rows = [{"id": id, "address": at.get(id, ""), "key": kept.get(id)} for id in sorted({*at, *kept})]
        try:
            await self._store.save_peers(rows)
        except LocalError:  # nothing is promised by it; the next news of a peer tries again
            self._peers, self.keys = before

    async def must_be_kept(self, trainer: TrainerId | None, event: Event) -> None:
        """Before a peer is told that its update has come, or a version: try once more what could not be saved.

        Raises:
            NotReady: it cannot be kept now; the peer may ask again.
        """
        if (
            trainer not in self._unsaved
            or trainer is None
            or not isinstance(event, UpdateReceived | UpdateOffered | VersionReceived)
        ):
            return
        if not await self._try(trainer, self._unsaved[trainer]):
            if isinstance(event, VersionReceived):
                raise NotReady(f"the own version cannot be kept here now ({self.trouble}); ask again")
            raise NotReady(f"the update cannot be kept here now ({self.trouble}); ask again")

    async def retry(self) -> None:
        """Try once more to save what could not be saved."""
        for trainer in list(self._unsaved):
            if (job := self._unsaved.get(trainer)) is not None:  # as it is by now, after the others
                await self._try(trainer, job)
        if not self._unsaved:
            self._is_well()

    def allowed(self, trainer: TrainerId, effect: Send) -> Send:
        """What may be sent: an own update that is not kept is not handed out, because it could not be repeated."""
        message = effect.message
        if trainer in self._unsaved and isinstance(message, AskVersion):
            return replace(effect, to=())  # nobody shall merge a version that a restart would forget
        if trainer not in self._unsaved or not isinstance(message, ModelParams) or effect.params is None:
            return effect
        why = f"its update could not be saved there: {self.trouble}"[:500]
        declined = message.model_copy(update={"examples": 0, "declined": why, "digest": None, "accuracy": None})
        return replace(effect, message=declined, params=None)

    async def _try(self, trainer: TrainerId, job: SavedJob) -> bool:
        self._given[trainer] = job
        why = ""
        try:
            await self._store.save(trainer, job)
        except LocalError as exc:
            why = str(exc)
            self.failed(why)
        if self._given.get(trainer) is job:  # else a newer state that holds this one was given meanwhile
            del self._given[trainer]
            if why:
                self._unsaved[trainer] = job
            else:
                self._unsaved.pop(trainer, None)
        if why:
            return False
        if not self._unsaved:
            self._is_well()
        return True

    def failed(self, why: str) -> None:
        """Something could not be kept: tell it, once for each cause."""
        if why != self.trouble:
            self.trouble = why
            self._tell("state_not_written", f"{why}; rounds go on in memory, and it is tried again")

    def _is_well(self) -> None:
        if self.trouble:
            self.trouble = ""
            self._tell("state_written", "state can be written again; nothing is left unsaved")


def restored_of(saved: SavedJob) -> Restored:
    """What a job hears of its earlier run."""
    words = tuple(
        UpdateReceived(kept.update) if kept.digest is None else UpdateOffered(kept.update, kept.digest)
        for kept in saved.updates
    )
    params, private, sent, remembered = saved.parts
    return Restored(saved.snapshot, params, private, sent, words, saved.records, remembered)

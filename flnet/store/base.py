"""The interface of stores, which keep the last state and the last models of each job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from flnet.errors import LocalError
from flnet.params.params import Digest, Params, TrainerId
from flnet.protocol.effects import KeptUpdate, Save
from flnet.settings import Settings
from flnet.store.partial_downloads import PartialDownloads
from flnet.text import text

RecordKey = tuple[int, str]  # round and initiator
FIRST: RecordKey = (-1, "")  # before all records
MOST_UNSAVED = 10_000  # records that are collected while a disk does not work
MOST_MODELS = 2  # models, likewise: an average, and one that beat it


@dataclass(frozen=True)
class Retention:
    """How much a store keeps of data that no job needs to continue.

    Attributes:
        averages: models of each trainer, besides the newest and the pinned ones.
        model_bytes: of all models of a trainer that are not pinned; the newest stays, however large.
        rounds: records of each trainer, the newest.
        events: of the feed, the newest.
    """

    averages: int
    model_bytes: int
    rounds: int
    events: int

    @classmethod
    def of(cls, settings: Settings) -> Retention:
        """The retention that the settings ask for."""
        nbytes = settings.keep_model_megabytes * 1024 * 1024
        return cls(settings.keep_models, nbytes, settings.keep_rounds, settings.keep_events)


USUAL = Retention.of(Settings())


@dataclass(frozen=True)
class KeptModel:
    """A model that is kept: its figures, and where it is asked for, its parameters.

    Attributes:
        digest: of the shared parameters; the model's name.
        figures: what is known of it, plain JSON data.
        nbytes: of all its parameters.
        shared: None in a list.
        private: parameters of this node that belong to this model; they are never sent to another node.
        pinned: whether a person wants it kept until it is unpinned.
    """

    digest: Digest
    figures: Mapping[str, Any]
    nbytes: int
    shared: Params | None = None
    private: Params | None = None
    pinned: bool = False

    @classmethod
    def of(cls, figures: Mapping[str, Any], shared: Params, private: Params) -> KeptModel:
        """A model as a job holds it."""
        return cls(shared.digest, figures, shared.nbytes + private.nbytes, shared, private)


@dataclass(frozen=True)
class SavedJob:
    """The last saved state of a job, or what of it is new.

    Attributes:
        snapshot: figures; `updates_from` in it is the first round whose updates are kept, all if it is not there.
        params: the shared model that it holds.
        private: its private parameters.
        sent: its newest own update.
        updates: of peers, in rounds that are not averaged yet.
        records: of rounds that are over, one for each (round, initiator), in the order of rounds.
        remembered: what its aggregation rule remembers.
        models: that become the newest ones that are kept, in this order, as by `Store.keep_model`.
    """

    snapshot: Mapping[str, Any] = field(default_factory=dict)
    params: Params | None = None
    private: Params | None = None
    sent: Params | None = None
    updates: tuple[KeptUpdate, ...] = ()
    records: tuple[Mapping[str, Any], ...] = ()
    remembered: Params | None = None
    models: tuple[KeptModel, ...] = ()

    @classmethod
    def of(cls, new: Save) -> SavedJob:
        """Read a job's effect."""
        parts = (new.params, new.private, new.sent)
        return cls(new.snapshot, *parts, new.updates, new.records, new.remembered)

    @property
    def parts(self) -> tuple[Params | None, ...]:
        """All sets of parameters that a job holds, in the order of the table's columns."""
        return (self.params, self.private, self.sent, self.remembered)

    def then(self, new: SavedJob) -> SavedJob:
        """This state after `new` was saved: what is None in it stays, updates and records are added."""
        first = new.snapshot.get("updates_from", 0)
        updates = {(kept.update.key, kept.update.peer): kept for kept in (*self.updates, *new.updates)}
        records = {(record["round"], record["initiator"]): record for record in self.records}
        records |= {(record["round"], record["initiator"]): record for record in new.records}
        return SavedJob(
            new.snapshot,
            self.params if new.params is None else new.params,
            self.private if new.private is None else new.private,
            self.sent if new.sent is None else new.sent,
            tuple(kept for (key, _), kept in sorted(updates.items()) if key.number >= first),
            tuple(records[at] for at in sorted(records)[-MOST_UNSAVED:]),
            self.remembered if new.remembered is None else new.remembered,
        ).with_models(*self.models, *new.models)

    def with_models(self, *models: KeptModel) -> SavedJob:
        """The same, with these models in place of those that it came with."""
        newest: dict[Digest, KeptModel] = {}
        for model in models:
            newest.pop(model.digest, None)
            newest[model.digest] = model
        return replace(self, models=tuple(newest.values())[-MOST_MODELS:])


class Store(Protocol):
    """Keeps jobs. A call that has returned is kept for as long as the store promises.

    A store on disk writes the arrays of a model to one file, named by the digest, once; what is said of it later
    goes beside it.

    Attributes:
        downloads: those that are not complete yet.
    """

    downloads: PartialDownloads

    async def save(self, trainer: TrainerId, job: SavedJob) -> None:
        """Keep this state in place of the last one, as `SavedJob.then` says.

        Raises:
            LocalError: it was not kept; the message says why. What was kept before is still there.
        """
        ...

    async def load(self, trainer: TrainerId, rounds: int | None = None) -> SavedJob | None:
        """The last saved state, with the records of that many newest rounds (None: all); None if there is none."""
        ...

    async def records(
        self, trainer: TrainerId, last: int | None = None, until: int | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """The records of the newest `last` rounds (None: all that are kept), oldest first.

        Args:
            until: rounds after this one do not count.
        """
        ...

    async def count_records(self, trainer: TrainerId) -> int:
        """The number of records that are kept."""
        ...

    async def records_after(
        self, trainer: TrainerId, after: RecordKey, most: int, skip: int = 0
    ) -> Sequence[Mapping[str, Any]]:
        """The oldest `most` records behind the one of this round and initiator, oldest first.

        Args:
            skip: of them, the oldest that are left out.
        """
        ...

    async def every_record(
        self, trainer: TrainerId, every: int, last: int | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """Every so many of the records of the newest `last` rounds, the newest among them, oldest first."""
        ...

    async def keep_model(
        self, trainer: TrainerId, figures: Mapping[str, Any], shared: Params, private: Params
    ) -> None:
        """Keep this model as the newest, and of those before it as many as `Retention` says; older ones go.

        One that is kept already (equal shared parameters) becomes the newest, with these figures and these
        private parameters; it stays pinned if it was. Pinned models are not counted, and never go.
        """
        ...

    async def models(self, trainer: TrainerId) -> Sequence[KeptModel]:
        """All that are kept, newest first, without their parameters."""
        ...

    async def load_model(self, trainer: TrainerId, digest: Digest) -> KeptModel | None:
        """The model with its parameters, or None if it is not kept (any more)."""
        ...

    async def pin(self, trainer: TrainerId, digest: Digest, pinned: bool) -> bool:
        """Keep a model whatever comes after it, or (False) let it go when its turn comes: with the next model.

        Returns:
            False: no such model is kept.
        """
        ...

    async def save_peers(self, peers: Sequence[Mapping[str, Any]]) -> None:
        """Keep these peers, each with its "id", in place of the last ones.

        Raises:
            LocalError: they were not kept, and why.
        """
        ...

    async def load_peers(self) -> Sequence[Mapping[str, Any]]:
        """The peers that were saved last, by id."""
        ...

    async def save_trust(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep what people decided on keys of other nodes, each with its "fingerprint", in place of the last ones.

        Raises:
            LocalError: it was not kept, and why.
        """
        ...

    async def load_trust(self) -> Sequence[Mapping[str, Any]]:
        """The decisions that were saved last, by fingerprint."""
        ...

    async def begin_events(self) -> int:
        """The number behind which this run numbers its events: behind all that earlier runs can have used.

        Raises:
            LocalError: it cannot be written.
        """
        ...

    async def add_events(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Keep events, each with its "id", "at", "kind", "text", "trainer" and "data"; nothing is promised.

        Raises:
            LocalError: they were not kept, and why.
        """
        ...

    async def events(self, last: int) -> Sequence[Mapping[str, Any]]:
        """The newest `last` events that are kept, oldest first."""
        ...

    async def end_events(self, last: int) -> None:
        """No event behind this number comes any more: the next run goes on with the next one."""
        ...

    def notices(self) -> Sequence[str]:
        """Notices for people about the state (something was damaged), each returned once."""
        ...

    async def close(self) -> None:
        """Write what is not written yet, and let go of files."""
        ...


def as_text(fields: Mapping[str, Any]) -> str:
    """Figures as JSON text.

    Raises:
        LocalError: they hold something that is not plain JSON data.
    """
    try:
        return json.dumps(dict(fields), allow_nan=False)
    except (TypeError, ValueError) as exc:
        raise LocalError(text("what is kept of a job must be plain JSON data: {reason}", exc)) from exc

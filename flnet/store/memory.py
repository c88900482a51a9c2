"""Remembers jobs for as long as the process lives: the twin of a store on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flnet.params.params import Digest, Params, TrainerId
from flnet.store.base import USUAL, KeptModel, RecordKey, Retention, SavedJob, as_text
from flnet.store.event_retention import KeptEvent, about, dropped, surplus
from flnet.store.partial_downloads import MemoryDownloads, PartialDownloads
from flnet.text import coded, decoded

Records = dict[tuple[int, str], str]  # as JSON, by round and initiator, in that order


class MemoryStore:
    """Keeps jobs in memory.

    Snapshots are kept as JSON text, so that nothing is shared with the job by accident and what a store on
    disk could not keep is noticed here too. Closing forgets nothing: a test restarts a node by handing the
    same store to the next one.
    """

    def __init__(self, retention: Retention = USUAL) -> None:
        self._retention = retention
        self._records: dict[TrainerId, Records] = {}
        self._jobs: dict[TrainerId, tuple[str, SavedJob]] = {}
        self._models: dict[TrainerId, dict[Digest, tuple[str, Params, Params]]] = {}  # newest last
        self._pinned: dict[TrainerId, set[Digest]] = {}
        self._peers: dict[str, str] = {}
        self._trust: dict[str, str] = {}
        self._events: dict[int, str] = {}
        self._last_event = 0
        self.downloads: PartialDownloads = MemoryDownloads()

    async def save(self, trainer: TrainerId, job: SavedJob) -> None:
        """Keep this state in place of the last one, as `SavedJob.then` says.

        Raises:
            LocalError: the snapshot holds something that is not plain JSON data.
        """
        text = as_text(coded(job.snapshot))
        records = {(record["round"], record["initiator"]): as_text(coded(record)) for record in job.records}
        _, before = self._jobs.get(trainer, ("", SavedJob()))
        for model in job.models:
            as_text(model.figures)
        self._jobs[trainer] = (text, before.then(replace(job, records=(), models=())))
        if records:
            kept = self._records.get(trainer, {}) | records
            self._records[trainer] = {at: kept[at] for at in sorted(kept)[-self._retention.rounds :]}
        for model in job.models:
            assert model.shared is not None and model.private is not None
            await self.keep_model(trainer, model.figures, model.shared, model.private)

    async def load(self, trainer: TrainerId, rounds: int | None = None) -> SavedJob | None:
        """The last saved state, with the records of that many newest rounds (None: all); None if there is none."""
        if trainer not in self._jobs:
            return None
        text, job = self._jobs[trainer]
        return replace(job, snapshot=decoded(json.loads(text)), records=tuple(await self.records(trainer, rounds)))

    async def records(
        self, trainer: TrainerId, last: int | None = None, until: int | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """The records of the newest `last` rounds, oldest first."""
        kept = self._records.get(trainer, {})
        texts = [text for (round, _), text in kept.items() if until is None or round <= until]
        return [
            decoded(json.loads(text)) for text in (texts if last is None else texts[max(0, len(texts) - last) :])
        ]

    async def count_records(self, trainer: TrainerId) -> int:
        """The number of records that are kept."""
        return len(self._records.get(trainer, {}))

    async def records_after(
        self, trainer: TrainerId, after: RecordKey, most: int, skip: int = 0
    ) -> Sequence[Mapping[str, Any]]:
        """The oldest `most` records behind this one, oldest first, without the first `skip`."""
        texts = [text for at, text in self._records.get(trainer, {}).items() if at > after]
        return [decoded(json.loads(text)) for text in texts[skip : skip + most]]

    async def every_record(
        self, trainer: TrainerId, every: int, last: int | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """Every so many of the newest records, oldest first."""
        return (await self.records(trainer, last))[::-1][::every][::-1]

    async def keep_model(
        self, trainer: TrainerId, figures: Mapping[str, Any], shared: Params, private: Params
    ) -> None:
        """Keep this model as the newest; of those before it, as many as count and size allow, and all pinned ones.

        Raises:
            LocalError: the figures hold something that is not plain JSON data.
        """
        text = as_text(figures)
        kept = self._models.setdefault(trainer, {})
        kept.pop(shared.digest, None)
        kept[shared.digest] = (text, shared, private)
        pinned = self._pinned.get(trainer, set())
        most = self._retention.averages + 1
        passing = {digest: model for digest, model in kept.items() if digest not in pinned}
        while len(passing) > 1 and (len(passing) > most or _size(passing) > self._retention.model_bytes):
            oldest = next(iter(passing))
            del passing[oldest], kept[oldest]

    async def models(self, trainer: TrainerId) -> Sequence[KeptModel]:
        """All that are kept, newest first, without their parameters."""
        kept = reversed(self._models.get(trainer, {}))
        models = [self._model(trainer, digest) for digest in kept]
        return [replace(model, shared=None, private=None) for model in models]

    async def load_model(self, trainer: TrainerId, digest: Digest) -> KeptModel | None:
        """The model with its parameters, or None if it is not kept (any more)."""
        return self._model(trainer, digest) if digest in self._models.get(trainer, {}) else None

    async def pin(self, trainer: TrainerId, digest: Digest, pinned: bool) -> bool:
        """Keep a model whatever comes after it, or let it go when its turn comes; whether it is kept at all."""
        if digest not in self._models.get(trainer, {}):
            return False
        of_trainer = self._pinned.setdefault(trainer, set())
        if pinned:
            of_trainer.add(digest)
        else:
            of_trainer.discard(digest)
        return True

    async def save_peers(self, peers: Sequence[Mapping[str, Any]]) -> None:
        """Keep these peers, each with its "id", in place of the last ones."""
        self._peers = {str(peer["id"]): as_text(peer) for peer in peers}

    async def load_peers(self) -> Sequence[Mapping[str, Any]]:
        """The peers that were saved last, by id."""
        return [json.loads(self._peers[peer]) for peer in sorted(self._peers)]

    async def save_trust(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep these decisions, each with its "fingerprint", in place of the last ones."""
        self._trust = {str(row["fingerprint"]): as_text(row) for row in rows}

    async def load_trust(self) -> Sequence[Mapping[str, Any]]:
        """The decisions that were saved last, by fingerprint."""
        return [json.loads(self._trust[fingerprint]) for fingerprint in sorted(self._trust)]

    async def begin_events(self) -> int:
        """The number behind which this run numbers its events."""
        return self._last_event

    async def add_events(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Keep events, each with its "id"."""
        self._events |= {event["id"]: as_text(event) for event in events}
        too_many = surplus(len(self._events), self._retention.events)
        if too_many:
            kept = [json.loads(self._events[number]) for number in sorted(self._events)]
            for number in dropped([KeptEvent(it["id"], it["kind"], about(it["data"])) for it in kept], too_many):
                del self._events[number]

    async def events(self, last: int) -> Sequence[Mapping[str, Any]]:
        """The newest `last` events that are kept, oldest first."""
        numbers = sorted(self._events)
        return [json.loads(self._events[number]) for number in numbers[max(0, len(numbers) - last) :]]

    async def end_events(self, last: int) -> None:
        """No event behind this number comes any more."""
        self._last_event = last

    def notices(self) -> Sequence[str]:
        """Nothing: memory is not damaged."""
        return ()

    async def close(self) -> None:
        """Nothing to write and nothing to let go of."""

    def _model(self, trainer: TrainerId, digest: Digest) -> KeptModel:
        text, shared, private = self._models[trainer][digest]
        nbytes, pinned = shared.nbytes + private.nbytes, digest in self._pinned.get(trainer, ())
        return KeptModel(digest, json.loads(text), nbytes, shared, private, pinned)


def _size(kept: Mapping[Digest, tuple[str, Params, Params]]) -> int:
    return sum(shared.nbytes + private.nbytes for _, shared, private in kept.values())

"""The models of this node's jobs: the one that each holds, and the last ones that the store keeps."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flnet.errors import JobBusy, NoData, NotReady, UnknownModel
from flnet.events import RolledBack
from flnet.jobs import Phase
from flnet.jobs.model import Model
from flnet.jobs.record import RoundRecord
from flnet.jobs.state import JobState
from flnet.node.base import View
from flnet.node.core import NodeCore
from flnet.params import Digest, Params, TrainerId
from flnet.store import KeptModel, Store
from flnet.store.base import as_text

_HEX = frozenset(string.hexdigits)
MOST_PINNED = 10  # models of a trainer
PINNED_BYTES = 512 * 1024 * 1024  # of all pinned models of a trainer; one alone may be larger


@dataclass(frozen=True)
class Chosen:
    """A model that somebody asked for; see `figures_of` for the figures."""

    trainer: TrainerId
    digest: Digest
    figures: Mapping[str, Any]
    shared: Params
    private: Params

    @property
    def to_keep(self) -> KeptModel:
        """As a store takes it."""
        return KeptModel.of(self.figures, self.shared, self.private)

    @property
    def full(self) -> Params:
        """All parameters, as the trainer wants them."""
        return self.shared.merged_with(self.private)


class Shelf:
    """Puts every model that a job comes to hold into the store, and finds it again."""

    def __init__(self, core: NodeCore, store: Store) -> None:
        self._core, self._store = core, store
        self._newest: dict[TrainerId, Chosen] = {}  # as the store has it
        self._restored: dict[TrainerId, Chosen] = {}  # to which people went back last, as it was kept

    def look(self, trainer: TrainerId) -> Chosen | None:
        """The model that the job holds now, if it was ever averaged."""
        state = self._core.jobs[trainer].state
        if state.model is None or state.model.round < 0:
            return None
        return self._held(trainer, state, state.model)

    async def news(self, models: Sequence[Chosen]) -> list[Chosen]:
        """What is to be kept of the models that a job held one after another, and of what became known of them.

        The private part stays as it was when the model came, or as it learnt on from this model: the next training
        changes it before there is a next average.

        Raises:
            LocalError: what is kept cannot be read, or these cannot be written.
        """
        newest: dict[Digest, Chosen] = {}  # of each model what is known by now, and its private part as it came
        for model in models:
            first = newest.pop(model.digest, model)
            same = first.figures["round"] == model.figures["round"]
            newest[model.digest] = beside(first, model) if same else model
        found: list[Chosen] = []
        for model in newest.values():
            last = found[-1] if found else self._newest.get(model.trainer)
            last = last or await self._stored(model.trainer, model.digest)
            held = model if last is None else _known_on(last, model)
            if last is None or (last.digest, last.figures) != (held.digest, held.figures):
                as_text(held.figures)
                found.append(held)
        return found

    def kept(self, models: Sequence[Chosen]) -> None:
        """The store has these now, the last one as the newest."""
        for model in models:
            self._newest[model.trainer] = model

    async def _stored(self, trainer: TrainerId, digest: Digest) -> Chosen | None:
        """The model as an earlier run kept it."""
        found = await self._store.load_model(trainer, digest)
        if found is None or found.shared is None:
            return None
        return Chosen(trainer, digest, found.figures, found.shared, found.private or Params())

    async def views(self, trainer: TrainerId) -> Sequence[View]:
        """One view per model, the held one first, then the newest; the shape stands in flnet.node.base.Node."""
        state = self._state(trainer)
        held = state.model
        assert held is not None
        digest = held.shared.digest
        nbytes = held.shared.nbytes + held.private.nbytes
        kept = await self._store.models(trainer)
        pinned = {one.digest for one in kept if one.pinned}
        figures = self._held(trainer, state, held).figures
        found = [_view(digest, figures, nbytes, is_held=True, pinned=digest in pinned)]
        return found + [
            _view(one.digest, one.figures, one.nbytes, is_held=False, pinned=one.pinned)
            for one in kept
            if one.digest != digest
        ]

    async def pick(self, trainer: TrainerId, digest: str | None) -> Chosen:
        """The model of this digest, or of a digest that begins so; None: the one that is held.

        Raises:
            UnknownTrainer, NotReady, NoData: there is no job, or no model yet.
            UnknownModel: none or several are called so.
        """
        state = self._state(trainer)
        held = state.model
        assert held is not None
        known = [one["digest"] for one in await self.views(trainer)]
        wanted = known[0] if digest is None else _only(trainer, digest, known)
        if wanted == held.shared.digest:
            return self._held(trainer, state, held)
        found = await self._store.load_model(trainer, wanted)
        if found is None or found.shared is None:
            raise _unknown(trainer, wanted, known)
        return Chosen(trainer, wanted, found.figures, found.shared, found.private or Params())

    async def pin(self, trainer: TrainerId, digest: str, pinned: bool) -> View:
        """Keep a model until it is unpinned, or let it go in its turn; its view afterwards.

        Raises:
            UnknownTrainer, NotReady, NoData, UnknownModel: as `pick`, and where the model was never averaged.
            JobBusy: as much is pinned as may be.
        """
        views = await self.views(trainer)
        wanted = _only(trainer, digest, [one["digest"] for one in views])
        if pinned:
            _check_room(trainer, wanted, views)
        if not await self._store.pin(trainer, wanted, pinned):
            raise UnknownModel(
                f"the model {wanted[:10]} of {trainer} is in use, but not kept: no round averaged it"
            )
        return next(one for one in await self.views(trainer) if one["digest"] == wanted)

    async def way_back(self, trainer: TrainerId, digest: str) -> RolledBack:
        """What the job is told for going back to a model; raises as `pick` does."""
        chosen = await self.pick(trainer, digest)
        self._restored[trainer], known = chosen, chosen.figures
        return RolledBack(chosen.shared, chosen.private, known["round"], known["contributors"], known["accuracy"])

    def _held(self, trainer: TrainerId, state: JobState, model: Model) -> Chosen:
        """The model that the job holds; one that a person went back to with what was known of it."""
        held, kept = _chosen(trainer, state, model), self._restored.get(trainer)
        if model.restored_at is None or kept is None or kept.digest != held.digest:
            return held
        accuracy = kept.figures["accuracy"] if state.accuracy is None else state.accuracy
        return replace(held, figures={**kept.figures, "accuracy": accuracy})

    def _state(self, trainer: TrainerId) -> JobState:
        state = self._core.job(trainer).state
        if state.phase is Phase.LOADING:
            raise NotReady(f"{trainer} is still loading its data")
        if state.model is None:
            raise NoData(trainer, state.error or "no data")
        return state


def _known_on(last: Chosen, held: Chosen) -> Chosen:
    """A model with what was known of it, if it is the one that was held last."""
    if (last.digest, last.figures["round"]) != (held.digest, held.figures["round"]):
        return held
    held = beside(last, held)
    if held.figures["record"] is None:  # so many rounds ago that the job does not hold it any more
        held = replace(held, figures={**held.figures, "record": last.figures["record"]})
    return held


def beside(first: Chosen, later: Chosen) -> Chosen:
    """The later view of a model with the private part that belongs to it."""
    if later.figures["personal"] and not first.figures.get("personal"):
        return later
    figures = {**later.figures, "personal": bool(first.figures.get("personal"))}
    return replace(later, private=first.private, figures=figures)


def figures_of(state: JobState, model: Model) -> dict[str, Any]:
    """What is known of a model that the job holds, as plain JSON data.

    round, contributors, accuracy (here, on the test split; None if it was not measured), schema_digest, private
    (names), personal (whether they learnt on from just this model), hyper (what this node trained with; empty if
    it did not), rows (per split), classes, and record: of the round that the model is from, or None.
    """
    declared, record = state.declaration, _record(state, model.round)
    data = declared.data if declared else {}
    return {
        "round": model.round,
        "contributors": model.contributors,
        "accuracy": _accuracy(state, model, record),
        "schema_digest": model.schema.digest,
        "private": sorted(model.private),
        "personal": model.is_personal,
        "hyper": (record.used_hyper if record else state.hyper.fields() if state.hyper else None) or {},
        "rows": dict(data.get("rows", {})),
        "classes": list(data.get("classes", ())),
        "record": None if record is None else dict(record.view()),
    }


def _chosen(trainer: TrainerId, state: JobState, model: Model) -> Chosen:
    return Chosen(trainer, model.shared.digest, figures_of(state, model), model.shared, model.private)


def _record(state: JobState, round: int) -> RoundRecord | None:
    candidates = ([state.record] if state.record else []) + [*reversed(state.history)]
    return next((record for record in candidates if record.key.number == round), None)


def _accuracy(state: JobState, model: Model, record: RoundRecord | None) -> float | None:
    """A model that came from elsewhere at the start of a round was never measured here."""
    if record is None or record.post_accuracy is None:
        return None
    if record.digest == model.shared.digest:
        return record.post_accuracy
    return state.accuracy if record.exchanged_with else None


def _view(digest: Digest, figures: Mapping[str, Any], nbytes: int, *, is_held: bool, pinned: bool) -> View:
    record = figures["record"] or {}
    return {
        "digest": digest,
        "round": figures["round"],
        "contributors": figures["contributors"],
        "accuracy": figures["accuracy"],
        "exchanged_with": record.get("exchanged_with") if record.get("digest") != digest else None,
        "bytes": nbytes,
        "held": is_held,
        "pinned": pinned,
    }


def _check_room(trainer: TrainerId, wanted: Digest, views: Sequence[View]) -> None:
    others = [one for one in views if one["pinned"] and one["digest"] != wanted]
    nbytes = sum(one["bytes"] for one in views if one in others or one["digest"] == wanted)
    if len(others) >= MOST_PINNED:
        raise JobBusy(f"{trainer} has {len(others)} pinned models, as many as may be; unpin one first")
    if others and nbytes > PINNED_BYTES:
        limit = f"{PINNED_BYTES // 1024**2} MiB, but these would be {nbytes / 1024**2:.0f} MiB"
        raise JobBusy(f"the pinned models of {trainer} may have {limit}; unpin one first")


def _only(trainer: TrainerId, digest: str, known: Sequence[Digest]) -> Digest:
    wanted = digest.lower()
    found = [one for one in known if one.startswith(wanted)]
    if len(found) != 1 or not wanted or not set(wanted) <= _HEX:
        raise _unknown(trainer, digest, known)
    return found[0]


def _unknown(trainer: TrainerId, digest: str, known: Sequence[Digest]) -> UnknownModel:
    kept = ", ".join(one[:10] for one in known)
    return UnknownModel(f"{trainer} has no model {digest[:64]!r} here; it has {kept}")

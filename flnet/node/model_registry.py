"""The model registry: the model that each job holds, and earlier ones that the store keeps."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flnet.errors import JobBusy, NoData, NotReady, UnknownModel
from flnet.node.core import NodeCore
from flnet.node.interface import View
from flnet.params.params import Digest, Params, TrainerId
from flnet.protocol.events import RolledBack
from flnet.rounds.base_job import AnyJob
from flnet.rounds.history import RoundRecord
from flnet.rounds.model import HeldModel, Model
from flnet.rounds.steps import Phase
from flnet.store.base import KeptModel, Store, as_text
from flnet.text import text

_HEX = frozenset(string.hexdigits)
MOST_PINNED = 10  # models of a trainer
PINNED_BYTES = 512 * 1024 * 1024  # of all pinned models of a trainer; one alone may be larger


@dataclass(frozen=True)
class SelectedModel:
    """A model with its parameters and figures (see `figures_of`)."""

    trainer: TrainerId
    digest: Digest
    figures: Mapping[str, Any]
    shared: Params
    private: Params

    @property
    def to_keep(self) -> KeptModel:
        """The model in the form that a store saves."""
        return KeptModel.of(self.figures, self.shared, self.private)

    @property
    def full(self) -> Params:
        """All parameters, as the trainer wants them."""
        return self.shared.merged_with(self.private)


class ModelRegistry:
    """Saves every model that a job holds, and finds it later."""

    def __init__(self, core: NodeCore, store: Store) -> None:
        self._core, self._store = core, store
        self._newest: dict[TrainerId, SelectedModel] = {}  # as the store has it
        self._restored: dict[TrainerId, SelectedModel] = {}  # that was restored last, as it was saved

    def held_model(self, trainer: TrainerId) -> SelectedModel | None:
        """The model that the job holds now, if it was ever averaged."""
        job = self._core.jobs[trainer]
        model = job.held.model
        return None if model is None or model.round < 0 else self._held(trainer, job, model)

    async def unsaved(self, models: Sequence[SelectedModel]) -> list[SelectedModel]:
        """The models, of those that a job held one after another, that are not in the store yet as they are now.

        The private part stays as it was when the model came, or as it was trained from this model: the next
        training changes it before there is a next average.

        Raises:
            LocalError: the store cannot be read, or the figures cannot be written.
        """
        newest: dict[
            Digest, SelectedModel
        ] = {}  # of each model what is known by now, and its private part as it came
        for model in models:
            first = newest.pop(model.digest, model)
            same = first.figures["round"] == model.figures["round"]
            newest[model.digest] = with_private_of(first, model) if same else model
        unsaved: list[SelectedModel] = []
        for model in newest.values():
            last = unsaved[-1] if unsaved else self._newest.get(model.trainer)
            last = last or await self._stored(model.trainer, model.digest)
            held = model if last is None else _known_on(last, model)
            if last is None or (last.digest, last.figures) != (held.digest, held.figures):
                as_text(held.figures)
                unsaved.append(held)
        return unsaved

    def mark_saved(self, models: Sequence[SelectedModel]) -> None:
        """Note that the store has these now, the last one as the newest."""
        for model in models:
            self._newest[model.trainer] = model

    async def _stored(self, trainer: TrainerId, digest: Digest) -> SelectedModel | None:
        """The model as an earlier run saved it."""
        stored = await self._store.load_model(trainer, digest)
        if stored is None or stored.shared is None:
            return None
        return SelectedModel(trainer, digest, stored.figures, stored.shared, stored.private or Params())

    async def views(self, trainer: TrainerId) -> Sequence[View]:
        """One view per model, the held one first, then the newest; the shape stands in flnet.node.interface.Node."""
        job = self._job(trainer)
        held = job.held.current
        digest = held.shared.digest
        nbytes = held.shared.nbytes + held.private.nbytes
        kept = await self._store.models(trainer)
        pinned = {model.digest for model in kept if model.pinned}
        figures = self._held(trainer, job, held).figures
        views = [_view(digest, figures, nbytes, is_held=True, pinned=digest in pinned)]
        return views + [
            _view(model.digest, model.figures, model.nbytes, is_held=False, pinned=model.pinned)
            for model in kept
            if model.digest != digest
        ]

    async def pick(self, trainer: TrainerId, digest: str | None) -> SelectedModel:
        """The model of this digest, or of a digest that begins so; None: the one that is held.

        Raises:
            UnknownTrainer, NotReady, NoData: there is no job, or no model yet.
            UnknownModel: none or several are called so.
        """
        job = self._job(trainer)
        held = job.held.current
        known = [view["digest"] for view in await self.views(trainer)]
        wanted = known[0] if digest is None else _only(trainer, digest, known)
        if wanted == held.shared.digest:
            return self._held(trainer, job, held)
        stored = await self._stored(trainer, wanted)
        if stored is None:
            raise _unknown(trainer, wanted, known)
        return stored

    async def pin(self, trainer: TrainerId, digest: str, pinned: bool) -> View:
        """Keep a model until it is unpinned, or let it go in its turn; its view afterwards.

        Raises:
            UnknownTrainer, NotReady, NoData, UnknownModel: as `pick`, and where the model was never averaged.
            JobBusy: as much is pinned as may be.
        """
        views = await self.views(trainer)
        wanted = _only(trainer, digest, [view["digest"] for view in views])
        if pinned:
            _check_room(trainer, wanted, views)
        if not await self._store.pin(trainer, wanted, pinned):
            raise UnknownModel(
                text(
                    "the model {digest} of {trainer} is in use, but not kept: no round averaged it",
                    wanted[:10],
                    trainer,
                )
            )
        return next(view for view in await self.views(trainer) if view["digest"] == wanted)

    async def rollback_to(self, trainer: TrainerId, digest: str) -> RolledBack:
        """The event that makes the job go back to a model; raises as `pick` does."""
        chosen = await self.pick(trainer, digest)
        self._restored[trainer], known = chosen, chosen.figures
        return RolledBack(chosen.shared, chosen.private, known["round"], known["contributors"], known["accuracy"])

    def _held(self, trainer: TrainerId, job: AnyJob, model: Model) -> SelectedModel:
        """The model that the job holds; a restored one keeps its figures."""
        held, kept = _chosen(trainer, job, model), self._restored.get(trainer)
        if model.restored_at is None or kept is None or kept.digest != held.digest:
            return held
        accuracy = kept.figures["accuracy"] if job.held.accuracy is None else job.held.accuracy
        return replace(held, figures={**kept.figures, "accuracy": accuracy})

    def _job(self, trainer: TrainerId) -> AnyJob:
        job = self._core.job(trainer)
        if job.phase is Phase.LOADING:
            raise NotReady(text("{trainer} is still loading its data", trainer))
        if job.held.model is None:
            raise NoData(trainer, job.error or text("no data"))
        return job


def _known_on(last: SelectedModel, held: SelectedModel) -> SelectedModel:
    """A model with what was known of it, if it is the one that was held last."""
    if (last.digest, last.figures["round"]) != (held.digest, held.figures["round"]):
        return held
    held = with_private_of(last, held)
    if held.figures["record"] is None:  # so many rounds ago that the job does not hold it any more
        held = replace(held, figures={**held.figures, "record": last.figures["record"]})
    return held


def with_private_of(first: SelectedModel, later: SelectedModel) -> SelectedModel:
    """The later view of a model with the private part that belongs to it."""
    if later.figures["personal"] and not first.figures.get("personal"):
        return later
    figures = {**later.figures, "personal": bool(first.figures.get("personal"))}
    return replace(later, private=first.private, figures=figures)


def figures_of(job: AnyJob, model: Model) -> dict[str, Any]:
    """The metadata of the job's current model, as plain JSON data.

    round, contributors, accuracy (here, on the test split; None if it was not measured), schema_digest, private
    (names), personal (whether they learnt on from just this model), hyper (what this node trained with; empty if
    it did not), rows (per split), classes, and record: of the round that the model is from, or None.
    """
    declared, hyper, record = job.settings.declaration, job.settings.round_hyper, job.record_of(model.round)
    data = declared.data if declared else {}
    return {
        "round": model.round,
        "contributors": model.contributors,
        "accuracy": _accuracy(job.held, model, record),
        "schema_digest": model.schema.digest,
        "private": sorted(model.private),
        "personal": model.is_personal,
        "hyper": (record.used_hyper if record else hyper.fields() if hyper else None) or {},
        "rows": dict(data.get("rows", {})),
        "classes": list(data.get("classes", ())),
        "record": None if record is None else dict(record.view()),
    }


def _chosen(trainer: TrainerId, job: AnyJob, model: Model) -> SelectedModel:
    return SelectedModel(trainer, model.shared.digest, figures_of(job, model), model.shared, model.private)


def _accuracy(held: HeldModel, model: Model, record: RoundRecord | None) -> float | None:
    """A model that came from elsewhere at the start of a round was never measured here."""
    if record is None or record.post_accuracy is None:
        return None
    if record.digest == model.shared.digest:
        return record.post_accuracy
    return held.accuracy if record.exchanged_with else None


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
    others = [view for view in views if view["pinned"] and view["digest"] != wanted]
    nbytes = sum(view["bytes"] for view in views if view in others or view["digest"] == wanted)
    if len(others) >= MOST_PINNED:
        raise JobBusy(
            text("{trainer} has {number} pinned models, as many as may be; unpin one first", trainer, len(others))
        )
    if others and nbytes > PINNED_BYTES:
        limit = text(
            "{limit} MiB, but these would be {size} MiB", PINNED_BYTES // 1024**2, f"{nbytes / 1024**2:.0f}"
        )
        raise JobBusy(text("the pinned models of {trainer} may have {words}; unpin one first", trainer, limit))


def _only(trainer: TrainerId, digest: str, known: Sequence[Digest]) -> Digest:
    wanted = digest.lower()
    matching = [candidate for candidate in known if candidate.startswith(wanted)]
    if len(matching) != 1 or not wanted or not set(wanted) <= _HEX:
        raise _unknown(trainer, digest, known)
    return matching[0]


def _unknown(trainer: TrainerId, digest: str, known: Sequence[Digest]) -> UnknownModel:
    kept = ", ".join(candidate[:10] for candidate in known)
    return UnknownModel(
        text("{trainer} has no model {digest} here; it has {known}", trainer, repr(digest[:64]), kept)
    )

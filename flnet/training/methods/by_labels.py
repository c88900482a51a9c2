"""FedMT on one node: what its rows teach a model that answers in another label space; see `flnet.labels`.

Q. Zhang et al., "FedMT: Federated Learning with Mixed-type Labels", arXiv 2210.02042, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from flnet.labels import (
    Estimate,
    Guesses,
    Labelling,
    Matrix,
    WarmUp,
    count_pairs,
    guesses,
    leaning,
    projected,
)
from flnet.training.api import (
    Array,
    DataInfo,
    Findings,
    Fit,
    Prediction,
    Score,
    SitsOut,
    Task,
    Trainer,
    TrainerError,
    Turn,
)
from flnet.training.labelling import carried
from flnet.training.lesson import Labels, Lesson
from flnet.training.methods.base import Model, Wrapped, no_clash, overrides
from flnet.training.methods.label_findings import label_findings, waiting_for, with_coarse

Both = tuple[Labels, Labels]
HEAD = "output."  # names of the last layer's arrays
COUNTS = "labels/counts"  # (J, K), private: how often each label met each confident guess
JOINED = "labels/joined"  # (1,), above 0 once coarse labels teach on some node: then they do on all
NOTHING = "no row here carries a label from which anything could be learnt"
POOLED_WORDS = "the nodes pool how often each label meets each guess, which tells them how often it occurs"
_AT_ONCE = 4096  # rows that are judged together, and of which an estimate is made at most
_NAMED = 10  # classes that a refusal lists
NOT_YET = "the common model does not know enough yet to learn from rows that are labelled otherwise"


class ByLabels(Wrapped):
    """A trainer whose rows are labelled in the space of this node; its model answers in the desired one."""

    def __init__(self, inner: Trainer, seed: int, labelling: Labelling, part: int, name: str) -> None:
        """Args:
        seed, part: of the labels that rows of a published data set carry; the number of this node's part.
        name: the trainer's id, for people.

        Raises:
            TrainerError: it cannot learn so; says why.
        """
        _refuse(inner, labelling, name)
        super().__init__(inner, seed)
        no_clash(self.names, ("labels/",))
        self._labelling, self._inputs = labelling, np.asarray(inner.inputs())
        self._rows, self._tests = _labelled(inner, labelling, [seed, part])
        is_other = not labelling.is_desired
        self._shape = len(labelling.space), len(labelling.target)
        self._estimates = is_other and labelling.estimate
        # In turns nobody waits: each estimate comes right after those with desired labels trained, and what the
        # model is unsure of hardly counts in it.
        self._waits = is_other and labelling.schedule == "parallel"
        self._holds = bool(labelling.fixed or labelling.mixed)
        self.judged_rows = len(self._inputs) if self._holds else min(len(self._inputs), _AT_ONCE)
        target = labelling.target
        self.shared, self.merging = self._of_all(), inner.merging or "agg0"  # by size, few fine labels would drown
        self.finds = "labels" if is_other else ""
        self.turn = Turn(labelling.schedule, bool((self._rows[0] >= 0).any()), labelling.turning)
        self.agreement = {
            **inner.agreement,
            "label space of the answers": f"{target.id}, {len(target)} classes, {target.digest[:16]}",
            "label spaces": _words(labelling),
        }

    def _of_all(self) -> tuple[str, ...]:
        """Names of what all nodes have in common: all that the trainer sends, or all but the last layer of it."""
        private = self._labelling.heads == "private"
        return (*(name for name in self.sent if not (private and name.startswith(HEAD))), JOINED)

    def data_info(self) -> DataInfo:
        """With a sentence on how the rows are labelled."""
        info, said = self.inner.data_info(), self._labelling
        here, there = f"{said.space.id} ({len(said.space)})", f"{said.target.id} ({len(said.target)})"
        if said.is_desired:
            words = f"labels of {there}, in which the model answers, on {int((self._rows[0] >= 0).sum())} rows"
        elif said.estimate:
            words = f"labels of {here}; the model answers in {there}; how they correspond is estimated"
        else:
            words = f"labels of {here}; the model answers in {there}; how they correspond is known"
        pooled = POOLED_WORDS if said.pool_counts else ""
        return replace(info, note="; ".join(filter(None, (info.note, words, pooled))))

    def initial_params(self, seed: int) -> Model:
        """With whether coarse labels teach yet, and an empty table of counts where an estimate is made of them."""
        first = {**self.inner.initial_params(seed), JOINED: np.zeros(1, np.float32)}
        return {**first, COUNTS: np.zeros(self._shape, np.int64)} if self._estimates else first

    def fit(self, task: Task) -> Fit:
        """So many steps on all rows that teach anything.

        Raises:
            SitsOut: the model knows too little yet for rows that are labelled in another space.
        """
        start, fine, coarse = self.inside(task.params), *self._rows
        joined = self._has_joined(task.params)
        some = self._looked_at(task, joined)
        said = self._judged(start, self._inputs[some])
        guessed = guesses(said, self._labelling.threshold)
        counts = count_pairs(coarse[some], guessed, self._shape)
        if self._waits and not joined and not self._is_warm(task.round, guessed):
            if not (fine >= 0).any():
                raise SitsOut(NOT_YET)
            coarse, counts = np.full_like(coarse, -1), np.zeros_like(counts)
        else:
            joined = joined or self._waits
        known = self.behind(task.params, counts) if self._estimates else None
        matrix = self._matrix(known, leaning(coarse[some], said, self._shape[0]))
        held = self._held(said, coarse, matrix) if self._holds else np.full(len(fine), -1)
        lesson = self._lesson(fine, coarse, matrix, held)
        if not len(lesson.rows):
            raise SitsOut(NOTHING)
        fit = self.inner.fit(replace(task, params=start, lesson=lesson))
        told: Model = {JOINED: np.array([joined], np.float32), **({COUNTS: counts} if self._estimates else {})}
        figures = {"confident_share": guessed.share} if len(some) else {}
        if self._estimates:
            figures["estimate_deviation"] = float(Estimate(counts).deviation.mean())
        return replace(fit, params={**task.params, **fit.params, **told}, metrics={**fit.metrics, **figures})

    def evaluate(self, params: Model) -> Score:
        """How many own test rows get the label that they carry; beside it, their class of the desired space."""
        return self._measured(params, self.inner.evaluate(self.inside(params)))

    @classmethod
    def evaluate_many(cls, jobs: Sequence[tuple[Self, Model]]) -> list[Score]:
        """Likewise; together, as far as the trainers inside can."""
        if len({type(one.inner) for one, _ in jobs}) != 1:
            return [one.evaluate(params) for one, params in jobs]
        found = type(jobs[0][0].inner).evaluate_many([(one.inner, one.inside(params)) for one, params in jobs])
        return [one._measured(params, score) for (one, params), score in zip(jobs, found, strict=True)]

    def _measured(self, params: Model, score: Score) -> Score:
        """What a measurement by the trainer inside says where rows are labelled so."""
        (fine, coarse), rows = self._tests, self.inner.tests()["accuracy"]
        metrics = {**score.metrics, **({"desired_accuracy": score.accuracy} if (rows.labels >= 0).any() else {})}
        if self._labelling.is_desired:
            return replace(score, metrics=metrics)
        judged = self._judged(params, rows.inputs)
        said = projected(judged, self.correspondence(params)).argmax(axis=1)
        right = np.where(coarse >= 0, said == coarse, judged.argmax(axis=1) == fine)
        return replace(score, accuracy=float(right.mean()), metrics=metrics)

    def predict(self, params: Model, inputs: Array) -> Prediction:
        """In the desired space, and in that of the own rows where it is another one."""
        found = super().predict(params, inputs)
        if self._labelling.is_desired:
            return found
        unknown = self._estimates and not self.behind(params, np.asarray(params[COUNTS])).any()
        return with_coarse(found, self._labelling, None if unknown else self.correspondence(params))

    def findings(self, params: Model) -> Findings | None:
        """How the label spaces correspond, and how far the warm-up is."""
        if self._labelling.is_desired:
            return None
        counts = np.asarray(params[COUNTS]) if self._estimates else None
        waiting = None
        if self._waits and not self._has_joined(params):
            some = np.sort(np.random.default_rng(0).permutation(len(self._inputs))[:_AT_ONCE])
            waiting = waiting_for(self._judged(params, self._inputs[some]), self._labelling.threshold)
        counts = None if counts is None else self.behind(params, counts)
        return label_findings(self._labelling, self._matrix(None), counts, waiting)

    def correspondence(self, params: Model) -> Matrix:
        """(J, K) of the own label space with the desired one, as far as it is known here."""
        return self._matrix(self.behind(params, np.asarray(params[COUNTS])) if self._estimates else None)

    def behind(self, params: Model, counts: Array) -> Array:
        """(J, K) the counts of which an estimate is made: the own ones, `counts`, where nothing is pooled."""
        return counts

    def _lesson(self, fine: Labels, coarse: Labels, matrix: Matrix, held: Labels) -> Lesson:
        how = self._labelling
        return Lesson(fine, coarse, matrix, how.steps, held, how.fixed, how.mixed)

    def _held(self, said: Matrix, coarse: Labels, matrix: Matrix) -> Labels:
        """(n,): to which class each row is held once it is changed, -1 for none.

        As printed it is the model's guess alone; here also what the row's label says of it, so that no row is held
        to a class that its label denies.
        """
        known = (coarse >= 0)[:, None]
        both = np.where(known, said * matrix[np.where(coarse >= 0, coarse, 0)], said)
        shares = both / np.maximum(both.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        found = guesses(shares, self._labelling.threshold)
        return np.where(found.sure, found.classes, -1)

    def _judged(self, params: Model, inputs: Array) -> Matrix:
        """(n, K): probabilities of the desired classes; in pieces, for rows may be kept as bytes."""
        pieces = (inputs[at : at + _AT_ONCE].astype(np.float32) for at in range(0, len(inputs), _AT_ONCE))
        inside = self.inside(params)
        judged = [np.asarray(self.inner.predict(inside, piece).values, np.float64) for piece in pieces]
        return np.concatenate(judged) if judged else np.zeros((0, self._shape[1]))

    def _looked_at(self, task: Task, joined: bool) -> Labels:
        """Numbers of the rows that the model judges before a training; all where each is held to its guess."""
        if not (self._holds or self._estimates or (self._waits and not joined)):
            return np.arange(0)
        order = np.random.default_rng([task.seed, 2]).permutation(len(self._inputs))
        return np.sort(order[: self.judged_rows])

    def _has_joined(self, params: Model) -> bool:
        """Whether coarse labels teach on some node: once they do, nobody waits any more."""
        return bool(np.asarray(params[JOINED])[0] > 0)

    def _is_warm(self, number: int, guessed: Guesses) -> bool:
        """Whether coarse labels may teach from round `number` on.

        By the number of the round, for the training process ends between rounds, and a node may come late.
        """
        return WarmUp().is_over(number, [guessed.share])

    def _matrix(self, counts: Array | None, prior: Matrix | None = None) -> Matrix:
        """What is known, or was counted; `prior` decides classes that no confident guess named."""
        if counts is not None and self._estimates:
            return Estimate(np.asarray(counts, np.int64), prior=prior).matrix
        known = self._labelling.correspondence
        return np.eye(self._shape[1]) if known is None else known.matrix


def _refuse(trainer: Trainer, labelling: Labelling, name: str) -> None:
    lacks = [method for method in ("inputs", "labels", "tests", "predict") if not overrides(trainer, method)]
    if "labels" not in trainer.honours or lacks:
        raise TrainerError(
            f"{name} cannot learn where nodes label differently: FLNET_LABELS needs a trainer that honours "
            "labels; leave that setting away, or this trainer out of FLNET_TRAINERS"
        )
    target, found = labelling.target, tuple(trainer.data_info().classes)
    if found != target.classes:
        raise TrainerError(
            f"the classes of {name} are {_few(found)}; the label space {target.id!r} of FLNET_LABELS, in which it "
            f"is to answer, has {_few(target.classes)}"
        )
    if not labelling.is_desired and labelling.correspondence is None and not trainer.own_labels():
        raise TrainerError(
            f"nothing says which classes of {labelling.space.id!r} the rows of {name} carry: add a [mapping] to "
            "the file in FLNET_LABELS; with estimate = true it is used for nothing else"
        )


def _words(labelling: Labelling) -> str:
    """What of it all nodes must have alike."""
    said = f"{labelling.schedule}, {labelling.steps} steps"
    said += f", from round {labelling.turning}" if labelling.schedule == "coarse-first" else ""
    return said + (", private heads" if labelling.heads == "private" else "")


def _labelled(trainer: Trainer, labelling: Labelling, seed: list[int]) -> tuple[Both, Both]:
    """Labels in the desired space and in the own one, of the training rows and of the test rows."""
    if own := trainer.own_labels():
        return own["train"], own["test"]
    tests = trainer.tests()["accuracy"].labels
    return (
        carried(labelling, np.asarray(trainer.labels()), np.random.default_rng([*seed, 1])),
        carried(labelling, tests, np.random.default_rng([*seed, 2])),
    )


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")

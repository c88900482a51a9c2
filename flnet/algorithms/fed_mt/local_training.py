"""FedMT on one node: trains a model that answers in the desired label space on rows of another one.

Q. Zhang et al., "FedMT: Federated Learning with Mixed-type Labels", arXiv 2210.02042, Algorithm 1 and section 3. There
each node counts pairs of label and confident guess by itself. With `pool_counts`, nodes share these counts: each sends,
for each pair, the part of its rows that has both. These parts are averaged like any parameter, and so is the part of
the nodes that counted, which gives the average of the counting nodes. This tells the others how often each label
occurs, so nothing is shared unless the files of all nodes allow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from flnet.algorithms.fed_mt.estimation import Estimate, Guesses, WarmUp, count_pairs, guesses, leaning
from flnet.algorithms.wrapper import Model, Wrapped, no_clash, overrides
from flnet.labels.losses import Labels, Lesson, projected
from flnet.labels.spaces import UNIFORM, Labelling, Matrix
from flnet.text import joined, text
from flnet.trainer import (
    Array,
    DataInfo,
    EvaluationCounts,
    Findings,
    Fit,
    InCoarse,
    LabelFindings,
    Prediction,
    Score,
    SitsOut,
    Task,
    Trainer,
    TrainerError,
    TrainerSettings,
    Turn,
    Waiting,
)


def label_findings(
    labelling: Labelling, known: Matrix, counts: Array | None, waiting: Waiting | None
) -> LabelFindings:
    """The diagnosis of a correspondence of label spaces.

    Args:
        known: (J, K) as the file gives it; not looked at where there are counts.
        counts: (J, K) behind an estimate; None where the correspondence is known.
        waiting: why the node does not learn from its labels yet.
    """
    target = labelling.target
    findings = LabelFindings(
        labelling.space.id,
        labelling.space.classes,
        target.id,
        target.classes,
        known,
        labelling.threshold,
        waiting=waiting,
        pooled=labelling.pool_counts,
    )
    if counts is None:
        return findings
    whole = np.asarray(counts, np.int64)
    if not whole.any():
        return replace(findings, matrix=None, counts=whole)
    estimate = Estimate(whole)
    return replace(findings, matrix=estimate.matrix, deviation=estimate.deviation, counts=whole)


def waiting_for(predictions: Matrix, threshold: float) -> Waiting:
    """How far a warm-up is.

    Args:
        predictions: (n, K) what the model says of own rows.
        threshold: from which probability on it is sure.
    """
    warm_up = WarmUp()
    return Waiting(warm_up.least, guesses(predictions, threshold).share, warm_up.share, len(predictions))


def with_coarse(prediction: Prediction, labelling: Labelling, matrix: Matrix | None) -> Prediction:
    """The prediction, with the prediction in the node's own label space.

    Args:
        prediction: in the desired space; where it has no probabilities, nothing can be said.
        matrix: (J, K); None where there is no estimate yet.
    """
    if prediction.meaning != "one_of":
        return prediction
    space, width = labelling.space, len(labelling.space)
    if matrix is None:
        values = np.zeros((0, width))
    else:
        values = projected(np.asarray(prediction.values, np.float64), matrix)
    return replace(prediction, coarse=InCoarse(space.id, space.classes, values, labelling.estimate))


Both = tuple[Labels, Labels]
HEAD = "output."  # names of the last layer's arrays
COUNTS = "labels/counts"  # (J, K), private: how often each label met each confident guess
VALIDATION = "validation_accuracy"  # a figure of a training
JOINED = "labels/joined"  # (1,), above 0 once coarse labels teach on some node: then they do on all
NOTHING = text("no row here carries a label from which anything could be learnt")
POOLED_WORDS = text("the nodes pool how often each label meets each guess, which tells them how often it occurs")
_AT_ONCE = 4096  # rows that are predicted together, and of which an estimate is made at most
_NAMED = 10  # classes that a refusal lists
NOT_YET = text("the common model does not know enough yet to learn from rows that are labelled otherwise")


class ByLabels(Wrapped):
    """A trainer whose rows have labels of this node's space, and whose model predicts in the desired space."""

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
        # The task inside is this one's with a lesson, so what the trainer does of a task it does here.
        setattr(self, "honours", inner.honours & {"proximal"})  # noqa: B010  a class variable by its type
        self._labelling, self._inputs = labelling, np.asarray(inner.inputs())
        self._rows, self._tests = _labelled(inner, labelling, [seed, part])
        self._validation = None if labelling.is_desired else _validation(inner, labelling, [seed, part])
        is_other = not labelling.is_desired
        self._shape = len(labelling.space), len(labelling.target)
        self._estimates = is_other and labelling.estimate
        # In turns nobody waits: each estimate comes right after those with desired labels trained, and what the
        # model is unsure of hardly counts in it.
        self._waits = is_other and labelling.schedule == "parallel"
        self._holds = bool(labelling.fixed or labelling.mixed)
        self.predicted_rows = len(self._inputs) if self._holds else min(len(self._inputs), _AT_ONCE)
        target = labelling.target
        # Not by size, where few fine labels would drown.
        self.shared, self.merging = self._of_all(), inner.merging or labelling.aggregation
        if labelling.aggregation != UNIFORM:  # a median has nothing of what a single node tells
            self.merge = {**self.merge, JOINED: "max"}
        self.finds = "labels" if is_other else ""
        self.turn = Turn(labelling.schedule, bool((self._rows[0] >= 0).any()), labelling.turning)
        self.agreement = {
            **inner.agreement,
            text("label space of the answers"): f"{target.id}, {len(target)} classes, {target.digest[:16]}",
            text("label spaces"): _words(labelling),
        }

    def _of_all(self) -> tuple[str, ...]:
        """Names of the shared arrays: all that the trainer sends, or all but its last layer."""
        private = self._labelling.heads == "private"
        return (*(name for name in self.sent if not (private and name.startswith(HEAD))), JOINED)

    def data_info(self) -> DataInfo:
        """The inner trainer's data, with a sentence on how the rows are labelled."""
        info, labelling = self.inner.data_info(), self._labelling
        space, target = (
            f"{labelling.space.id} ({len(labelling.space)})",
            f"{labelling.target.id} ({len(labelling.target)})",
        )
        if labelling.is_desired:
            words = text(
                "labels of {there}, in which the model answers, on {count} rows",
                target,
                int((self._rows[0] >= 0).sum()),
            )
        elif labelling.estimate:
            words = text(
                "labels of {here}; the model answers in {there}; how they correspond is estimated", space, target
            )
        else:
            words = text(
                "labels of {here}; the model answers in {there}; how they correspond is known", space, target
            )
        pooled = POOLED_WORDS if labelling.pool_counts else ""
        return replace(info, note=joined(filter(None, (info.note, words, pooled))))

    def initial_params(self, seed: int) -> Model:
        """Initial parameters, with a flag whether coarse labels are used yet and, for an estimate, empty counts."""
        first = {**self.inner.initial_params(seed), JOINED: np.zeros(1, np.float32)}
        return {**first, COUNTS: np.zeros(self._shape, np.int64)} if self._estimates else first

    def fit(self, task: Task) -> Fit:
        """Train for the agreed number of steps on all rows that teach.

        Raises:
            SitsOut: the model knows too little yet for rows that are labelled in another space.
        """
        start, fine, coarse = self.inside(task.params), *self._rows
        joined = self._has_joined(task.params)
        some = self._looked_at(task, joined)
        predicted = self._predictions(start, self._inputs[some])
        guessed = guesses(predicted, self._labelling.threshold)
        counts = count_pairs(coarse[some], guessed, self._shape)
        if self._waits and not joined and not self._is_warm(task.round, guessed):
            if not (fine >= 0).any():
                raise SitsOut(NOT_YET)
            coarse, counts = np.full_like(coarse, -1), np.zeros_like(counts)
        else:
            joined = joined or self._waits
        known = self.behind(task.params, counts) if self._estimates else None
        matrix = self._matrix(known, leaning(coarse[some], predicted, self._shape[0]))
        held = self._held(predicted, coarse, matrix) if self._holds else np.full(len(fine), -1)
        lesson = self._lesson(fine, coarse, matrix, held)
        if not len(lesson.rows):
            raise SitsOut(NOTHING)
        fit = self.inner.fit(replace(task, params=start, lesson=lesson))
        told: Model = {JOINED: np.array([joined], np.float32), **({COUNTS: counts} if self._estimates else {})}
        figures = {"confident_share": guessed.share} if len(some) else {}
        if self._estimates:
            figures["estimate_deviation"] = float(Estimate(counts).deviation.mean())
        params, metrics = {**task.params, **fit.params, **told}, dict(fit.metrics)
        if not self._labelling.is_desired and metrics.pop(VALIDATION, None) is not None:
            # The inner trainer's is of labels that this node does not have.
            validation = self.validation_score(params)
            figures |= {} if validation is None else {VALIDATION: validation.accuracy}
        return replace(fit, params=params, metrics={**metrics, **figures})

    def measured(self, params: Model, score: Score) -> Score:
        """The score with the accuracy on the labels that test rows carry, and `desired_accuracy` for desired classes."""
        rows = self.inner.tests()["accuracy"]
        metrics = {**score.metrics, **({"desired_accuracy": score.accuracy} if (rows.labels >= 0).any() else {})}
        if self._labelling.is_desired:
            return replace(score, metrics=metrics)
        return replace(self._by_own_labels(params, rows.inputs, self._tests), metrics=metrics, split=score.split)

    def validation_score(self, params: Model) -> Score | None:
        """The accuracy on the labels that validation rows carry; None if there are no such rows."""
        if self._labelling.is_desired:
            return super().validation_score(params)
        return None if self._validation is None else self._by_own_labels(params, *self._validation)

    def _by_own_labels(self, params: Model, inputs: Array, labels: Both) -> Score:
        """The accuracy on labels of the own space, and of the desired one where a row has no other."""
        fine, coarse = labels
        predictions = self._predictions(params, inputs)
        guess = projected(predictions, self.correspondence(params)).argmax(axis=1)
        right = np.where(coarse >= 0, guess == coarse, predictions.argmax(axis=1) == fine)
        # Labels differ from node to node, so that only rows that are right add up.
        counts = EvaluationCounts(right=int(right.sum()), examples=len(right))
        return Score(float(right.mean()), len(right), counts=counts)

    def predict(self, params: Model, inputs: Array) -> Prediction:
        """Predictions in the desired space, and in the space of this node's rows if it is another one."""
        prediction = super().predict(params, inputs)
        if self._labelling.is_desired:
            return prediction
        unknown = self._estimates and not self.behind(params, np.asarray(params[COUNTS])).any()
        return with_coarse(prediction, self._labelling, None if unknown else self.correspondence(params))

    def findings(self, params: Model) -> Findings | None:
        """How the label spaces correspond, and how far the warm-up is."""
        if self._labelling.is_desired:
            return None
        counts = np.asarray(params[COUNTS]) if self._estimates else None
        waiting = None
        if self._waits and not self._has_joined(params):
            some = np.sort(np.random.default_rng(0).permutation(len(self._inputs))[:_AT_ONCE])
            waiting = waiting_for(self._predictions(params, self._inputs[some]), self._labelling.threshold)
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

    def _held(self, predicted: Matrix, coarse: Labels, matrix: Matrix) -> Labels:
        """(n,): to which class each row is held once it is changed, -1 for none.

        As printed it is the model's guess alone; here also what the row's label says of it, so that no row is held
        to a class that its label denies.
        """
        known = (coarse >= 0)[:, None]
        both = np.where(known, predicted * matrix[np.where(coarse >= 0, coarse, 0)], predicted)
        shares = both / np.maximum(both.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        guessed = guesses(shares, self._labelling.threshold)
        return np.where(guessed.sure, guessed.classes, -1)

    def _predictions(self, params: Model, inputs: Array) -> Matrix:
        """(n, K): probabilities of the desired classes; in pieces, for rows may be kept as bytes."""
        pieces = (inputs[at : at + _AT_ONCE].astype(np.float32) for at in range(0, len(inputs), _AT_ONCE))
        inside = self.inside(params)
        predictions = [np.asarray(self.inner.predict(inside, piece).values, np.float64) for piece in pieces]
        return np.concatenate(predictions) if predictions else np.zeros((0, self._shape[1]))

    def _looked_at(self, task: Task, joined: bool) -> Labels:
        """Numbers of the rows that the model judges before a training; all where each is held to its guess."""
        if not (self._holds or self._estimates or (self._waits and not joined)):
            return np.arange(0)
        order = np.random.default_rng([task.seed, 2]).permutation(len(self._inputs))
        return np.sort(order[: self.predicted_rows])

    def _has_joined(self, params: Model) -> bool:
        """Whether coarse labels teach on some node: once they do, nobody waits any more."""
        return bool(np.asarray(params[JOINED])[0] > 0)

    def _is_warm(self, number: int, guessed: Guesses) -> bool:
        """Whether coarse labels may teach from round `number` on.

        By the number of the round, for the training process ends between rounds, and a node may come late.
        """
        return WarmUp().is_over(number, [guessed.share])

    def _matrix(self, counts: Array | None, prior: Matrix | None = None) -> Matrix:
        """The known or estimated matrix; `prior` fills classes without confident guesses."""
        if counts is not None and self._estimates:
            return Estimate(np.asarray(counts, np.int64), prior=prior).matrix
        known = self._labelling.correspondence
        return np.eye(self._shape[1]) if known is None else known.matrix


def _refuse(trainer: Trainer, labelling: Labelling, name: str) -> None:
    lacks = [method for method in ("inputs", "labels", "tests", "predict") if not overrides(trainer, method)]
    if "labels" not in trainer.honours or lacks:
        raise TrainerError(
            text(
                "{name} cannot learn where nodes label differently: FLNET_LABELS needs a trainer "
                "that honours labels; leave that setting away, or this trainer out of FLNET_TRAINERS",
                name,
            )
        )
    target, classes = labelling.target, tuple(trainer.data_info().classes)
    if classes != target.classes:
        raise TrainerError(
            text(
                "the classes of {trainer} are {classes}; the label space {name} of FLNET_LABELS, in "
                "which it is to answer, has {names}",
                name,
                _few(classes),
                repr(target.id),
                _few(target.classes),
            )
        )
    if not labelling.is_desired and labelling.correspondence is None and not trainer.own_labels():
        raise TrainerError(
            text(
                "nothing says which classes of {name} the rows of {trainer} carry: add a [mapping] "
                "to the file in FLNET_LABELS; with estimate = true it is used for nothing else",
                repr(labelling.space.id),
                name,
            )
        )


def _words(labelling: Labelling) -> str:
    """The parts of a labelling that must be the same on all nodes, in words."""
    text = f"{labelling.schedule}, {labelling.steps} steps"
    text += f", from round {labelling.turning}" if labelling.schedule == "coarse-first" else ""
    return text + (", private heads" if labelling.heads == "private" else "")


def _labelled(trainer: Trainer, labelling: Labelling, seed: list[int]) -> tuple[Both, Both]:
    """Labels in the desired space and in the own one, of the training rows and of the test rows."""
    if own := trainer.own_labels():
        return own["train"], own["test"]
    tests = trainer.tests()["accuracy"].labels
    return (
        carried(labelling, np.asarray(trainer.labels()), np.random.default_rng([*seed, 1])),
        carried(labelling, tests, np.random.default_rng([*seed, 2])),
    )


def _validation(trainer: Trainer, labelling: Labelling, seed: list[int]) -> tuple[Array, Both] | None:
    """The validation rows that carry a label, as inputs, with labels in the desired space and in the own one."""
    rows, own = trainer.validation_rows(), trainer.own_labels()
    if rows is None or (own and "validation" not in own):
        return None
    both = own.get("validation") or carried(labelling, rows.labels, np.random.default_rng([*seed, 3]))
    some = np.flatnonzero((both[0] >= 0) | (both[1] >= 0))
    return (np.asarray(rows.inputs)[some], (both[0][some], both[1][some])) if len(some) else None


def _few(names: Sequence[str]) -> str:
    named, hidden = ", ".join(names[:_NAMED]), len(names) - _NAMED
    return text("{names} and {count} more", named, hidden) if hidden > 0 else named


POOLED = "labels/pooled"  # (J, K): the part of a node's rows that has this label and this confident guess
POOLING = "labels/pooling"  # (1,): 1 of a node that counted, 0 of another one


class Pooling(ByLabels):
    """A trainer whose node shares its counts, and estimates from the counts of all nodes of its label space."""

    def __init__(self, inner: Trainer, seed: int, labelling: Labelling, part: int, name: str) -> None:
        """See `ByLabels`."""
        super().__init__(inner, seed, labelling, part, name)
        space = labelling.pooled or labelling.space
        self._table = len(space), len(labelling.target)
        self.shared = (*(self.shared or ()), POOLED, POOLING)
        self.agreement = {
            **self.agreement,
            text("pooled counts"): f"{space.id}, {len(space)} classes, {space.digest[:16]}",
        }

    def initial_params(self, seed: int) -> Model:
        """Initial parameters, with empty counts."""
        nothing = {POOLED: np.zeros(self._table, np.float32), POOLING: np.zeros(1, np.float32)}
        return {**super().initial_params(seed), **nothing}

    def fit(self, task: Task) -> Fit:
        """Train, and return the update with the node's counts.

        A node that counts nothing passes the pooled counts on if it trains in its own rounds, and nothing if it
        trains together with nodes that count.
        """
        fit = super().fit(task)
        counts = np.asarray(fit.params[COUNTS]) if self._estimates else np.zeros(self._table)
        if not counts.any() and self._labelling.schedule != "parallel":
            return fit
        parts = (counts / max(1, self.predicted_rows)).astype(np.float32)
        told = {POOLED: parts, POOLING: np.array([counts.any()], np.float32)}
        return replace(fit, params={**fit.params, **told})

    def behind(self, params: Model, counts: Array) -> Array:
        """The mean counts of the nodes that counted, scaled to this node's rows; else its own counts."""
        nodes = float(np.asarray(params[POOLING])[0])
        if nodes <= 0:
            return counts
        parts = np.clip(np.asarray(params[POOLED], np.float64) / nodes, 0, 1)
        pooled = np.rint(parts * self.predicted_rows).astype(np.int64)
        return pooled if pooled.any() else counts


def with_labels(trainer: Trainer, settings: TrainerSettings, name: str) -> Trainer:
    """Wrap the trainer for a node with these labels; without FLNET_LABELS, return it unchanged.

    Args:
        name: its id, for people.

    Raises:
        TrainerError: it cannot learn so; says why, and what to change.
    """
    if settings.labels is None:
        return trainer
    if settings.method.controls or settings.method.kind != "none":
        raise TrainerError(
            text(
                "FLNET_LABELS does not go with FLNET_PERSONAL_MODEL, nor with scaffold in "
                "FLNET_AGGREGATION: leave one of them away"
            )
        )
    kind = Pooling if settings.labels.pool_counts else ByLabels
    return kind(trainer, settings.seed, settings.labels, settings.shard[0], name)


def carried(labelling: Labelling, classes: Array, chance: np.random.Generator) -> tuple[Labels, Labels]:
    """Which labels rows of a published data set carry, in the desired space and in the coarse one, -1 for none.

    Args:
        classes: (n,) what they are, as numbers in the desired space.
        chance: draws the coarse label where more than one is possible, and the rows that carry desired ones.
    """
    truth = np.asarray(classes, np.int64)
    nothing = np.full(len(truth), -1, np.int64)
    fine = nothing.copy()
    if labelling.is_desired or labelling.rows is not None:
        some = _spread(truth, labelling.rows, chance)
        fine[some] = truth[some]
    if labelling.is_desired or labelling.correspondence is None:
        return fine, nothing
    limits = np.cumsum(labelling.correspondence.matrix, axis=0)[:, truth]
    drawn = (chance.random(len(truth)) >= limits).sum(axis=0)
    return fine, np.minimum(drawn, len(labelling.space) - 1)


def _spread(truth: Labels, count: int | None, chance: np.random.Generator) -> Labels:
    """The numbers of `count` rows, with classes as balanced as possible."""
    order = chance.permutation(len(truth))
    if count is None or count >= len(truth):
        return np.sort(order)
    place = np.zeros(len(truth), np.int64)  # of each row among those of its class
    for name in np.unique(truth):
        its = order[truth[order] == name]
        place[its] = np.arange(len(its))
    return np.sort(order[np.argsort(place[order], kind="stable")][:count])

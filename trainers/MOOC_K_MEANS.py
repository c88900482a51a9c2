"""Which kinds of students are there? Groups of enrolments in online courses, by k-means, without a label.

A. Tornaría, "Uso de técnicas de Aprendizaje Federado para el análisis de datos sensibles", Universidad de la
República, 2024: k-means with k = 3 on the counts of what each student did (KDD Cup 2015).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from flnet.text import text
from flnet.trainer import Array, InputSpec, Prediction, Score, Trainer, TrainerSettings

from ._central_groups import CentralGroups
from ._k_means import CENTROIDS, COUNTS, RULES, KMeans, Model, Options, Table
from ._mooc import all_enrolments, load_school, one_scale
from ._options import is_whole, read_lines

OFFERED = "named"  # for research: not among the trainers of a node that names none
DATA_PLACE = "mooc_kddcup2015.npz"  # below FLNET_DATASETS_PATH
OPTIONS_FILE = "mooc_k_means.toml"  # in the same folder
_HIGH = 1.25  # a quarter of the logarithm of 147: few counts are larger
_OF_EXPERIMENTS = {
    "rows": (text("how many enrolments are dealt, above 0"), is_whole),
    "compare": (text("true or false"), lambda value: isinstance(value, bool)),
}


class StudentGroups(KMeans):
    """k-means on one school's enrolments."""

    def __init__(self, table: Table, options: Options, central: CentralGroups | None = None) -> None:
        """Args:
        central: the rows of all schools, where an experiment compares with them.
        """
        super().__init__(table, options, text("Groups of students in online courses (KDD Cup 2015)"))
        self._central = central
        self._start: Array | None = None

    def initial_params(self, seed: int) -> Model:
        """As k-means begins; by chance alone this is the start from which to compare."""
        params = super().initial_params(seed)
        if self._options.start == "seed":
            self._start = params[CENTROIDS]
        return params

    def evaluate(self, params: Model) -> Score:
        """How well the groups fit; compared, also how alike they are to those of all rows in one place."""
        score = super().evaluate(params)
        if self._central is None:
            return score
        if self._start is None and params[COUNTS].sum() > len(self._table.train):  # the first average of schools
            self._start = params[CENTROIDS].copy()
        if self._start is None:
            return score
        alike = self._central.alike(self._start, params[CENTROIDS])
        return replace(score, metrics={**score.metrics, "central_jaccard": alike})

    def input_spec(self) -> InputSpec:
        """One enrolment: the counts, as in the data set."""
        return InputSpec(
            "table",
            (len(self._table.columns),),
            names=self._table.columns,
            hint=text("what a student did, in counts"),
        )

    def predict(self, params: Model, inputs: Array) -> Prediction:
        """How near an enrolment is to each group."""
        return super().predict(params, one_scale(inputs))


@lru_cache(maxsize=1)
def _central(folder: Path, seed: int, wanted: int | None) -> CentralGroups:
    """One for all schools of an experiment in this process."""
    return CentralGroups(all_enrolments(folder, seed, wanted))


def make_trainer(settings: TrainerSettings) -> Trainer:
    """This school's enrolments, without what became of them."""
    folder = settings.datasets_path
    lines = {} if folder is None else read_lines(folder / OPTIONS_FILE, {**RULES, **_OF_EXPERIMENTS})
    wanted, is_compared = lines.pop("rows", None), lines.pop("compare", False)
    school = load_school(settings, wanted)
    assert folder is not None  # else there were no school
    d = len(school.columns)
    train, validation, test = (school.sides[side].x for side in ("train", "validation", "test"))
    table = Table(train, test, school.columns, (0.0,) * d, (_HIGH,) * d, school.info, validation)
    return StudentGroups(table, Options(**lines), _central(folder, settings.seed, wanted) if is_compared else None)

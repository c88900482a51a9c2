"""Which kinds of students are there? Groups of enrolments in online courses, by k-means, without a label.

A. Tornaría, "Uso de técnicas de Aprendizaje Federado para el análisis de datos sensibles", Universidad de la
República, 2024: k-means with k = 3 on the counts of what each student did (KDD Cup 2015).
"""

from __future__ import annotations

from flnet.training.api import Array, InputSpec, Prediction, Trainer, TrainerSettings

from ._k_means import KMeans, Model, Options, Table, read_options
from ._mooc import load_school, one_scale

DATA_PLACE = "mooc_kddcup2015.npz"  # below FLNET_DATASETS_PATH
OPTIONS_FILE = "mooc_k_means.toml"  # beside it
_HIGH = 1.25  # a quarter of the logarithm of 147: few counts are larger


class StudentGroups(KMeans):
    """k-means on one school's enrolments."""

    def __init__(self, table: Table, options: Options) -> None:
        super().__init__(table, options, "Groups of students in online courses (KDD Cup 2015)")

    def input_spec(self) -> InputSpec:
        """One enrolment: the counts, as in the data set."""
        return InputSpec(
            "table", (len(self._table.columns),), names=self._table.columns, hint="what a student did, in counts"
        )

    def predict(self, params: Model, inputs: Array) -> Prediction:
        """How near an enrolment is to each group."""
        return super().predict(params, one_scale(inputs))


def make_trainer(settings: TrainerSettings) -> Trainer:
    """This school's enrolments, without what became of them."""
    school = load_school(settings)
    assert settings.datasets_path is not None  # else there were no school
    d = len(school.columns)
    table = Table(
        school.sides["train"].x, school.sides["test"].x, school.columns, (0.0,) * d, (_HIGH,) * d, school.info
    )
    return StudentGroups(table, read_options(settings.datasets_path / OPTIONS_FILE))

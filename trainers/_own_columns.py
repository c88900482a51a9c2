"""Vertical trainers without code: this node's columns in the file that a TOML file names, with small dense networks.

A file `<ID>.toml` with kind = "vertical" in FLNET_TRAINERS_PATH makes one (flnet/datasets/no_code.py). numpy is enough.
"""

from __future__ import annotations

from collections.abc import Sequence

from flnet.algorithms.vertical.numpy_models import DenseBottom, DenseTop, Layers
from flnet.datasets.no_code import OwnColumns
from flnet.datasets.no_code_columns import Columns, read_columns
from flnet.text import text
from flnet.trainer import Array, DataInfo, HyperParams, NotOffered, TrainerSettings
from flnet.vertical_trainer import (
    BottomModel,
    GradientDefence,
    KeyHolderTrainer,
    OutputDefence,
    TopModel,
    VerticalTrainer,
)


class OwnColumnsTrainer(VerticalTrainer):
    """The columns of one file."""

    def __init__(self, own: OwnColumns, columns: Columns) -> None:
        self._own, self._columns = own, columns
        self.label = own.label
        self.defaults, self.method, self.hides_matches = _defaults(own), own.method, own.hides_matches
        self.several_labels = own.several_labels
        if own.output_noise is not None:
            self.output_noise = OutputDefence(own.output_noise.clip, own.output_noise.multiplier)
        if own.gradient_noise is not None:
            self.gradient_noise = GradientDefence(own.gradient_noise.rule, own.gradient_noise.scale)
        self.tells_score, self.in_flight = own.tells_score, own.in_flight
        self.allows_predictions = own.allow_predictions

    def identifiers(self) -> Sequence[str]:
        """The id column."""
        return self._columns.ids

    def columns(self) -> Sequence[str]:
        """The feature columns."""
        return self._columns.names

    def shared_columns(self) -> Sequence[str]:
        """Their names, if the file says share_names = true."""
        return self._columns.names if self._own.share_names else ()

    def features(self, rows: Array) -> Array:
        """Standardised numbers, and an input for each category."""
        if not self._columns.x.shape[1]:
            raise NotOffered(text("this trainer has no features"))
        return self._columns.x[rows]

    def labels(self, rows: Array) -> Array:
        """Class numbers."""
        if self._columns.y is None:
            raise NotOffered(text("this trainer has no labels"))
        return self._columns.y[rows]

    def bottom_model(self, seed: int, hyper: HyperParams) -> BottomModel | None:
        """Dense layers with ReLU; None without features."""
        inputs = self._columns.x.shape[1]
        if not inputs or self._own.is_encrypted:
            return None
        layers = Layers((inputs, *self._own.hidden, self._own.width), relu_at_end=True)
        return DenseBottom(layers, layers.initial(seed), "adam", hyper.u)

    def top_model(self, width: int, seed: int, hyper: HyperParams) -> TopModel | None:
        """Dense layers with ReLU; None without labels."""
        if self._columns.y is None or self._own.is_encrypted:
            return None
        count = len(self._columns.classes)
        layers = Layers((width, *self._own.hidden, 1 if count == 2 else count))
        return DenseTop(layers, layers.initial(seed), "adam", hyper.u)

    def class_names(self) -> Sequence[str]:
        """The words of the label column."""
        return self._columns.classes

    def data_info(self) -> DataInfo:
        """Where the columns come from; peers are told the classes only where names are shared."""
        classes = self._columns.classes if self._own.share_names else ()
        return DataInfo(source=self._own.data, rows={"train": len(self._columns.ids)}, classes=classes)


class OwnKeyTrainer(KeyHolderTrainer):
    """The key of an encrypted regression: a file without data."""

    def __init__(self, own: OwnColumns) -> None:
        self.label, self.defaults, self.hides_matches = own.label, _defaults(own), own.hides_matches


def _defaults(own: OwnColumns) -> HyperParams:
    rate, batch = own.hyper
    return HyperParams(e=1, u=rate, b=batch)


def make_own_columns(own: OwnColumns, settings: TrainerSettings) -> VerticalTrainer:
    """Called once in the training child."""
    if own.holds_key:
        return OwnKeyTrainer(own)
    return OwnColumnsTrainer(own, read_columns(own.path(settings), own))

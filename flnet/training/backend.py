"""What does the work of the lane: in this process (local) or in a child (process)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from flnet.errors import InputRefused, NotOffered, SettingsError, TrainerError
from flnet.events import Declaration
from flnet.messages import HyperParams
from flnet.params import Array, Params
from flnet.settings import Settings
from flnet.training.api import Fit, Prediction, Score, TrainerFile, TrainerSettings
from flnet.training.labelling import labels_of
from flnet.training.method import Method
from flnet.training.partition import Partition
from flnet.training.processors import processors

Report = Callable[[int, int], None]  # (batches done, batches in all)
Inputs = Array | bytes  # for a prediction: numbers as `read_inputs` gives them, or a PNG or JPEG file
TOLD = (TrainerError, InputRefused, NotOffered)  # what work in the lane may end in


@dataclass(frozen=True)
class Assignment:
    """Which trainer is to work, and what it is told about the node."""

    file: TrainerFile
    settings: TrainerSettings


@dataclass(frozen=True)
class FitOrder:
    """One local training, in the mesh's round `round`; `number` names it when it is cancelled."""

    number: int
    params: Params
    hyper: HyperParams
    seed: int
    round: int = 0


class Backend(Protocol):
    """Called by the lane's one thread, except for `cancel` and `close`.

    Fails in TrainerError only, `predict` and `export` in InputRefused and NotOffered too.
    """

    def prepare(self, who: Assignment, anew: bool = False) -> tuple[Declaration, Params]:
        """Load a trainer, or `anew` one that is loaded already: its declaration and initial parameters."""
        ...

    def fit(self, who: Assignment, order: FitOrder, report: Report) -> tuple[Fit, Score]:
        """Train, then measure; `report` is called now and then, from any thread."""
        ...

    def personalise(self, who: Assignment, order: FitOrder, report: Report) -> tuple[Params, Score]:
        """Let private parameters learn on from a new average, then measure; what they became, and the score."""
        ...

    def evaluate(self, who: Assignment, params: Params) -> Score:
        """Measure."""
        ...

    def predict(self, who: Assignment, params: Params, inputs: Inputs) -> Prediction:
        """Judge inputs."""
        ...

    def findings(self, who: Assignment, params: Params) -> dict[str, Any]:
        """What a model shows on the own rows, as `flnet.training.findings` has it; NotOffered where nothing."""
        ...

    def export(self, who: Assignment, params: Params, metadata: Mapping[str, str]) -> bytes:
        """The model as an ONNX file with these words in it."""
        ...

    def cancel(self, number: int) -> None:
        """End this training at its next batch; called from any thread, returns at once."""
        ...

    def rest(self) -> None:
        """There has been no work for a while: give memory back."""
        ...

    def close(self) -> None:
        """Stop whatever runs, as soon as it can be stopped; called from another thread."""
        ...


def assignment(settings: Settings, file: TrainerFile) -> Assignment:
    """What the trainer of this file is told; its state folder is made.

    Raises:
        TrainerError: the folder cannot be made.
    """
    folder = state_folder(settings) / "trainers" / file.id
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise TrainerError(f"the folder {folder} for what trainer {file.id} keeps cannot be made: {exc}") from exc
    shard = (settings.data_shard.index, settings.data_shard.count)
    told = TrainerSettings(
        settings.datasets_path,
        folder,
        shard,
        settings.seed,
        threads_of(settings),
        partition_of(settings),
        settings.device,
        settings.max_training_seconds,
        method_of(settings),
        labels_of(settings),
    )
    return Assignment(file, told)


def method_of(settings: Settings) -> Method:
    """How this node trains beyond what its trainers do themselves."""
    controls = settings.aggregation.split(",")[-1].split(":")[0] == "scaffold"
    return Method(settings.local_training, settings.personal_model, settings.model_choice, controls)


def partition_of(settings: Settings) -> Partition:
    """How the rows of a data set are dealt to nodes.

    Raises:
        SettingsError: the number in it is out of range.
    """
    try:
        return Partition.parse(settings.data_partition)
    except ValueError as exc:
        raise SettingsError(f"FLNET_DATA_PARTITION={settings.data_partition}: {exc}") from exc


def state_folder(settings: Settings) -> Path:
    """Where this node keeps what must survive a restart."""
    return settings.folder


def threads_of(settings: Settings) -> int:
    """How many threads a framework may use."""
    return settings.compute_threads or processors()


def thread_bounds(threads: int) -> dict[str, str]:
    """The variables by which numerical libraries and frameworks are told how many threads they may use."""
    count = str(threads)
    return {
        "OMP_NUM_THREADS": count,
        # Threads of two trainings that wait for each other by turning in circles were measured 20 times as slow.
        "OMP_WAIT_POLICY": "PASSIVE",
        "OPENBLAS_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "NUMEXPR_NUM_THREADS": count,
        "VECLIB_MAXIMUM_THREADS": count,
        "TF_NUM_INTRAOP_THREADS": count,
        "TF_NUM_INTEROP_THREADS": "1",
    }

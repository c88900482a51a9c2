"""The assignment of a training child: the trainer, and the settings of this node for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flnet.algorithms.differential_privacy import parse_privacy
from flnet.algorithms.registry import parse_rule
from flnet.errors import LabelsRefused, SettingsError, TrainerError
from flnet.labels.spaces import MAX_BYTES, Labelling, must_be_learnable, read_toml
from flnet.settings import Settings
from flnet.text import text
from flnet.trainer import Method, Partition, TrainerFile, TrainerSettings

_CGROUPS = Path("/sys/fs/cgroup")
_CGROUP_MEMBERSHIP = Path("/proc/self/cgroup")


@dataclass(frozen=True)
class Assignment:
    """A trainer, and the settings it gets from the node."""

    file: TrainerFile
    settings: TrainerSettings


def assignment(settings: Settings, file: TrainerFile) -> Assignment:
    """The assignment of one trainer; creates its state folder.

    Raises:
        TrainerError: the folder cannot be made.
    """
    folder = settings.folder / "trainers" / file.id
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise TrainerError(
            text(
                "the folder {folder} for what trainer {trainer} keeps cannot be made: {reason}",
                folder,
                file.id,
                exc,
            )
        ) from exc
    shard = (settings.data_shard.index, settings.data_shard.count)
    trainer_settings = TrainerSettings(
        settings.datasets_path,
        folder,
        shard,
        settings.seed,
        threads_of(settings),
        partition_of(settings),
        settings.device,
        settings.max_training_seconds,
        method_of(settings),
        labels_of(settings.labels),
        settings.validation_share,
    )
    return Assignment(file, trainer_settings)


def method_of(settings: Settings) -> Method:
    """The method that the settings choose for all trainers of this node."""
    controls = parse_rule(settings.aggregation).changes_training
    privacy = parse_privacy(settings.privacy)
    hides_rows = privacy is not None and privacy.level == "rows"
    return Method(settings.local_training, settings.personal_model, settings.model_choice, controls, hides_rows)


def partition_of(settings: Settings) -> Partition:
    """How the rows of a data set are partitioned among nodes.

    Raises:
        SettingsError: the number in it is out of range.
    """
    try:
        return Partition.parse(settings.data_partition)
    except ValueError as exc:
        raise SettingsError(
            text("FLNET_DATA_PARTITION={partition}: {reason}", settings.data_partition, exc)
        ) from exc


def labels_of(path: Path | None) -> Labelling | None:
    """The labelling in the file of FLNET_LABELS; None if it is not set.

    Raises:
        SettingsError: the file cannot be read, or nothing could be learnt from what it says; says what is missing.
    """
    if path is None:
        return None
    what = f"FLNET_LABELS={path}"
    try:
        with path.open("rb") as file:
            labelling = read_toml(file.read(MAX_BYTES + 1))
        must_be_learnable(labelling)
    except OSError as exc:
        raise SettingsError(text("{path} cannot be read: {reason}", what, exc)) from exc
    except LabelsRefused as exc:
        raise SettingsError(f"{what}: {exc.message}") from exc
    return labelling


def threads_of(settings: Settings) -> int:
    """Number of threads that a framework may use."""
    return settings.compute_threads or processors()


def thread_bounds(threads: int) -> dict[str, str]:
    """Environment variables that limit the threads of numerical libraries and frameworks."""
    count = str(threads)
    return {
        "OMP_NUM_THREADS": count,
        # Two trainings whose threads wait for each other by spinning were measured 20 times as slow.
        "OMP_WAIT_POLICY": "PASSIVE",
        "OPENBLAS_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "NUMEXPR_NUM_THREADS": count,
        "VECLIB_MAXIMUM_THREADS": count,
        "TF_NUM_INTRAOP_THREADS": count,
        "TF_NUM_INTEROP_THREADS": "1",
    }


def processors(groups: Path = _CGROUPS, membership: Path = _CGROUP_MEMBERSHIP) -> int:
    """Number of processors this process may use: its affinity, limited by the CPU quota of its control groups.

    Args:
        groups: where control groups are mounted (Linux).
        membership: the file that says which ones this process is in.
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    shares = [share for folder in _folders(groups, membership) if (share := _share(folder)) is not None]
    return max(1, int(min([usable, *shares])))


def _folders(groups: Path, membership: Path) -> Iterator[Path]:
    """Folders of this process's control groups and of all their parents; the limit of each of them applies."""
    try:
        lines = membership.read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = groups / controllers if controllers else groups
        inside = root / path.strip("/")
        yield from (folder for folder in (inside, *inside.parents) if folder == root or root in folder.parents)


def _share(folder: Path) -> float | None:
    """The CPU quota of a group, in processors; None if it is not limited."""
    try:
        if (folder / "cpu.max").is_file():
            quota, period = (folder / "cpu.max").read_text("ascii").split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text("ascii") for name in ("quota", "period"))
        return int(quota) / int(period) if int(quota) > 0 and int(period) > 0 else None
    except (OSError, ValueError):  # no such file, or "max"
        return None

"""Runs the measurement of `flnet.experiments.leak` in several processes, and writes its tables and its picture."""

from __future__ import annotations

import csv
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from flnet.algorithms.membership_inference import by_chance
from flnet.compute.assignment import processors, thread_bounds
from flnet.compute.loader import import_trainer
from flnet.datasets.labelled import Labelled, read_idx
from flnet.datasets.samples import write_digits
from flnet.errors import TrainerError
from flnet.experiments.leak import (
    DELTA,
    MECHANISMS,
    NODES,
    QUICK,
    InversionFigures,
    Mechanism,
    MembershipFigures,
    Scale,
    attack_by_inversion,
    attack_by_membership,
    deal_rows,
    guess_without_update,
    multiplier,
    scaled,
)
from flnet.experiments.learners import trainer_file
from flnet.experiments.plots import save_images
from flnet.experiments.run import machine
from flnet.experiments.sigmoid_network import Numbers
from flnet.settings import Settings
from flnet.temporary import temporary_folder
from flnet.trainer import TrainerSettings

TITLE = "What updates and models tell of the rows behind them"
TRAINER, SEEDS, TESTED = "MNIST", 5, 2000
WITHOUT = "no update, labels known"
PICTURE, PICTURE_BATCHES, TABLE = "recovered.png", (1, 8), "table.csv"
DRAWN = 12_000  # generated digits behind the picture
Write = Callable[[str], object]


@dataclass(frozen=True)
class AttackedRows:
    """What is attacked: training rows and test rows as bytes, and where they are from."""

    train: Labelled
    test: Labelled
    source: str


class MechanismFigures(NamedTuple):
    """The figures of one mechanism with one seed."""

    membership: MembershipFigures
    inversions: Sequence[InversionFigures]


def main(settings: Settings, folder: Path, write: Write, *, seeds: int | None = None, quick: bool = False) -> None:
    """Measure everything.

    Args:
        settings: where data sets and trainers are.
        folder: for the picture and the table as CSV; exists.
        write: gets line after line of the report.
        seeds: how many; five by default, one if quick.
        quick: few rows and small batches, to check that everything works.

    Raises:
        TrainerError: the trainer MNIST cannot be loaded, or has no data.
        NotOffered: an extra is not installed.
    """
    rows, scale, seeds = _read_rows(settings), QUICK if quick else Scale(), seeds or (1 if quick else SEEDS)
    for line in _head(rows, scale, seeds):
        write(line)
    with _pool(rows) as pool:
        waiting = {one: [pool.submit(_measured, one, seed, scale) for seed in range(seeds)] for one in MECHANISMS}
        without = [pool.submit(_without, seed, scale) for seed in range(seeds)]
        drawn = _draw_images(pool, scale)
        write(_row("what the attacker sees", "accuracy", "advantage", "at the mean loss", "AUC", "shadow models"))
        write(_row(*["---"] * 6))
        found: dict[str, list[MechanismFigures]] = {}
        for mechanism, futures in waiting.items():
            found[mechanism.name] = [future.result() for future in futures]
            columns = _membership_columns(found[mechanism.name])
            write(_row(mechanism.name, *map(_cell, columns.values())))
        images = {name: [one.inversions for one in parts] for name, parts in found.items()}
        images[WITHOUT] = [future.result() for future in without]
        save_images(drawn(), [f"{batch} on each node" for batch in PICTURE_BATCHES], folder / PICTURE)
    for line in (*_images_table(images, scale), *_labels_table(images, scale)):
        write(line)
    write(f"![Generated digits, and what is recovered of them]({PICTURE})")
    _write_csv(folder / TABLE, found, images, scale)


def _read_rows(settings: Settings) -> AttackedRows:
    with temporary_folder("leak") as folder:
        of_trainer = TrainerSettings(settings.datasets_path, folder)
        trainer = import_trainer(trainer_file(TRAINER, settings), of_trainer, again=False)
        inputs, labels, tests = trainer.inputs(), trainer.labels(), trainer.tests()
    if inputs is None or labels is None or "accuracy" not in tests:
        raise TrainerError(f"the trainer {TRAINER} does not give its rows, which this measurement attacks")
    test, source = tests["accuracy"], trainer.data_info().source
    if settings.datasets_path is not None:  # a report travels; where data lie here does not
        source = source.replace(str(settings.datasets_path), "FLNET_DATASETS_PATH")
    return AttackedRows(Labelled(inputs, labels), Labelled(test.inputs[:TESTED], test.labels[:TESTED]), source)


# The worker processes.

_shared: list[AttackedRows] = []


@contextmanager
def _pool(rows: AttackedRows) -> Iterator[Executor]:
    """A process for each processor, with one thread each; they end with the block, also in the middle of a task."""
    before = dict(os.environ)
    os.environ.update(thread_bounds(1))  # libraries read it when they are loaded, which is before the first task
    pool = ProcessPoolExecutor(processors(), multiprocessing.get_context("spawn"), _begin, (rows,))
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.kill()
        raise
    finally:
        os.environ.clear()
        os.environ.update(before)
    pool.shutdown()


def _begin(rows: AttackedRows) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends this process
    _shared.append(rows)


def _measured(mechanism: Mechanism, seed: int, scale: Scale) -> MechanismFigures:
    meshes = deal_rows(_shared[0].train, seed, scale)
    attacked, known = meshes[0].parts, _together(meshes[1].parts)
    noise = multiplier(mechanism, len(attacked[0]), scale)
    found = attack_by_membership(mechanism, meshes, scaled(_shared[0].test), scale, seed)
    return MechanismFigures(
        found,
        [
            attack_by_inversion(mechanism, _first(attacked, batch), known, noise, scale, seed)
            for batch in scale.batches
        ],
    )


def _without(seed: int, scale: Scale) -> list[InversionFigures]:
    meshes = deal_rows(_shared[0].train, seed, scale)
    known = _together(meshes[1].parts)
    return [guess_without_update(_first(meshes[0].parts, batch)[0], known) for batch in scale.batches]


def _first(parts: Sequence[Labelled], count: int) -> list[Labelled]:
    return [part.take(np.arange(count)) for part in parts]


def _together(parts: Sequence[Labelled]) -> Labelled:
    return Labelled(np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts]))


# What is written.


def _draw_images(pool: Executor, scale: Scale) -> Callable[[], Mapping[str, Sequence[Numbers]]]:
    """Attack generated digits, which may be shown, unlike those of a data set; the result are columns of images."""
    with temporary_folder("digits") as folder:
        write_digits(folder, train=DRAWN, test=1)
        files = (folder / f"train-{name}-ubyte.gz" for name in ("images-idx3", "labels-idx1"))
        attacked, other = deal_rows(Labelled(*map(read_idx, files)), 0, Scale(rows=scale.rows, shadows=1))
    known, noisy = _together(other.parts), {one: multiplier(one, scale.rows, scale) for one in MECHANISMS}
    batches = [_first(attacked.parts, batch) for batch in PICTURE_BATCHES]
    futures = {
        one.name: [pool.submit(attack_by_inversion, one, parts, known, noise, scale, 0) for parts in batches]
        for one, noise in noisy.items()
    }

    def columns() -> Mapping[str, Sequence[Numbers]]:
        found = {name: [future.result() for future in parts] for name, parts in futures.items()}
        originals = [one.original[0] for one in next(iter(found.values()))]
        return {
            "original": originals,
            **{name: [one.guesses[0] for one in parts] for name, parts in found.items()},
        }

    return columns


def _head(rows: AttackedRows, scale: Scale, seeds: int) -> Iterator[str]:
    count = len(deal_rows(rows.train, 0, scale)[0].parts[0])
    yield f"Data: {rows.source}. Machine: {machine()}. {seeds} seeds; cells are mean ± standard deviation over them."
    yield ""
    yield (
        f"{NODES} nodes (4 in the sum of 4) with {count} training rows each; {scale.rounds} rounds of {scale.epochs} "
        f"epochs, batches of {scale.batch}, rate {scale.rate:g}; a network with {scale.hidden} hidden neurons. Noise is "
        f"that of delta {DELTA:g} over all rounds, with clip 1."
    )
    yield ""
    yield "## Membership inference"
    yield ""
    yield (
        f"On the model or update of the last round, the mean over the nodes. The best threshold of the loss on {count} "
        f"training rows and as many others reaches up to {by_chance(count, count):.3f} by chance in 95 of 100 cases; at "
        f"the mean loss, and with {scale.shadows} shadow meshes, a guess has 0; the AUC of a guess is 0.5."
    )
    yield ""


def _membership_columns(found: Sequence[MechanismFigures]) -> dict[str, list[float]]:
    return {name: [getattr(one.membership, name) for one in found] for name in MembershipFigures._fields}


def _images_table(images: Mapping[str, Sequence[Sequence[InversionFigures]]], scale: Scale) -> Iterator[str]:
    yield from ("", "## Images from one step", "")
    yield "SSIM of the images of one node with what is recovered (1: the same image), and the peak signal-to-noise ratio."
    yield ""
    yield _row("what the attacker sees", "closed form, 1 image", *(f"{n} on each node" for n in scale.batches))
    yield _row(*["---"] * (2 + len(scale.batches)))
    for name, seeds in images.items():
        closed = _cell([one[0].closed for one in seeds])
        cells = (
            f"{_cell([one.ssim for one in column])}, {fmean(one.psnr for one in column):.0f} dB"
            for column in zip(*seeds, strict=True)
        )
        yield _row(name, closed, *cells)


def _labels_table(images: Mapping[str, Sequence[Sequence[InversionFigures]]], scale: Scale) -> Iterator[str]:
    yield from (
        "",
        "Share of the labels of the step that are guessed right, of all nodes that are in the sum:",
        "",
    )
    yield _row("what the attacker sees", *(f"{n} on each node" for n in scale.batches))
    yield _row(*["---"] * (1 + len(scale.batches)))
    for name, seeds in images.items():
        if name != WITHOUT:
            yield _row(name, *(_cell([one.labels for one in column]) for column in zip(*seeds, strict=True)))
    yield ""


def _write_csv(
    path: Path,
    found: Mapping[str, Sequence[MechanismFigures]],
    images: Mapping[str, Sequence[Sequence[InversionFigures]]],
    scale: Scale,
) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["mechanism", "figure", "images", "seed", "value"])
        for name, seeds in found.items():
            for figure, values in _membership_columns(seeds).items():
                table.writerows([name, figure, "", seed, f"{value:.6g}"] for seed, value in enumerate(values))
        for name, runs in images.items():
            for seed, run in enumerate(runs):
                for batch, one in zip(scale.batches, run, strict=True):
                    figures = {"ssim": one.ssim, "psnr": one.psnr, "labels": one.labels, "closed": one.closed}
                    table.writerows(
                        [name, figure, batch, seed, f"{value:.6g}"] for figure, value in figures.items()
                    )


def _cell(values: Sequence[float]) -> str:
    spread = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
    return f"{fmean(values):.3f}{spread}"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"

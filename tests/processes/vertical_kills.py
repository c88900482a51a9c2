"""Kills holders of a vertical job at each stage of an epoch: `python -m tests.processes.vertical_kills --kills 20`.

Three nodes hold different columns of 200 people; the second one has the label. After each kill the node comes back, and
the epoch is trained to its end. Then all models are compared with those of an undisturbed run of as many epochs in this
process: with the same rows, batches and seeds they are equal to the bit, if no batch was lost, or trained twice.
"""

from __future__ import annotations

import importlib.util
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import click
import httpx
import numpy as np

from flnet.algorithms.vertical.aligned_batches import AlignedBatches, seed_for
from flnet.algorithms.vertical.split_network import FeatureHolder, LabelHolder, SplitNode, run_epoch
from flnet.algorithms.vertical.split_plan import RowNumbers, SplitPlan
from flnet.params.params import Array, PeerId, TrainerId
from flnet.rounds.vertical_models import VerticalModels
from flnet.store.sqlite_store import read_job
from flnet.trainer import TrainerSettings
from flnet.vertical_trainer import ModelState, VerticalTrainer
from tests.processes.campaign import ANYWHERE, CrashHarness
from tests.processes.crashing import POINT, Point, arm
from tests.processes.harness import RealNode, until

T = TrainerId("PEOPLE")
HOLDERS, LABEL = 3, "n1"
MOST_BATCHES = 18  # of the 20 of an epoch, for a kill within it
LONGEST_KILL_SECONDS = 1.0  # after an epoch was asked for, for a kill at a random time
DYING_SECONDS = 0.5
REST_SECONDS = 1.0  # without an open epoch, until none is expected any more
MOST_TRIES = 4  # of an epoch
SETTINGS = {
    "WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG": "20",
    "REQUEST_TIMEOUT_IN_SECONDS": "2",
    "TRAINERS": str(T),
}
TRAINER = '''
"""Columns of 200 people; ids that only one node has stand in a file beside this one."""

import pathlib

import numpy as np

from flnet.algorithms.vertical.numpy_models import DenseBottom, DenseTop, Layers
from flnet.trainer import HyperParams, NotOffered
from flnet.vertical_trainer import VerticalTrainer

KIND = "vertical"
COMMON = 200


class People(VerticalTrainer):
    defaults = HyperParams(e=1, u=0.01, b=8)
    in_flight = 2

    def __init__(self, settings):
        part = settings.shard[0]
        self.part, chance = part, np.random.default_rng(part)
        extra = pathlib.Path(__file__).with_name(f"extra{part}")
        own = extra.read_text().split() if extra.exists() else []
        self.order = chance.permutation(COMMON)
        self.ids = [f"P{number:03}" for number in self.order] + own
        self.x = chance.normal(size=(COMMON, 1 + part)).astype("float32")[self.order]
        self.x = np.vstack([self.x, np.ones((len(own), 1 + part), "float32")])

    def identifiers(self):
        return self.ids

    def features(self, rows):
        return self.x[rows]

    def labels(self, rows):
        if self.part != 2:
            raise NotOffered("no labels")
        return np.r_[self.order % 2, np.zeros(len(self.ids) - COMMON, int)][rows]

    def bottom_model(self, seed, hyper):
        layers = Layers((1 + self.part, 6, 4))
        return DenseBottom(layers, layers.initial(seed), "adam", hyper.u)

    def top_model(self, width, seed, hyper):
        layers = Layers((width, 5, 1))
        return DenseTop(layers, layers.initial(seed), "adam", hyper.u) if self.part == 2 else None


make_vertical_trainer = People
'''
POINTS: Mapping[str, tuple[Point, ...]] = {
    "asking": (
        Point("before", "Send", "ASKING"),
        Point("after", "Send", "ASKING"),
        Point("before", "SetTimer", "ASKING"),
    ),
    "aligning": (
        *(Point("before", "OpenEpoch", "ALIGNING"), Point("before", "Talk", "ALIGNING")),
        *(Point("done", "Talk", "ALIGNING"), Point("before", "Send", "ALIGNING")),
    ),
    "training": (
        *(Point("before", "Talk", "TRAINING"), Point("after", "Talk", "TRAINING")),
        *(Point("before", "Send", "TRAINING"), Point("after", "Send", "TRAINING")),
    ),
    "closing": (
        *(Point("before", "Save", "CLOSING"), Point("after", "Save", "CLOSING")),
        *(Point("before", "Send", "CLOSING"), Point("after", "Send", "CLOSING")),
    ),
}


class Kill(NamedTuple):
    """Which node is killed, and when.

    Attributes:
        stage: of the epoch; "any" for a random time.
        has_label: whether it is the label holder.
        is_initiator: whether it began the epoch.
    """

    stage: str
    has_label: bool
    is_initiator: bool

    def __str__(self) -> str:
        holder = "label holder" if self.has_label else "feature holder"
        return f"{self.stage:<9} {holder:<14} {'initiator' if self.is_initiator else '':<9}"


def plan(chance: Random) -> Iterator[Kill]:
    """Each stage for each kind of holder, initiator or not, and four at random times, in random order; again and again."""
    kinds = [(has_label, is_initiator) for has_label in (True, False) for is_initiator in (True, False)]
    kills = [Kill(stage, *kind) for stage in (*POINTS, "any") for kind in kinds]
    while True:
        yield from chance.sample(kills, len(kills))


@dataclass
class Outcome:
    """What came of the kills.

    Attributes:
        missed: points that a node did not pass.
        lost: epochs that were given up, with the reasons.
        broken: what should not be, in sentences.
    """

    kills: list[str] = field(default_factory=list)
    missed: int = 0
    epochs: int = 0
    lost: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


class Undisturbed:
    """The same job in this process: one epoch after the other, with all nodes."""

    def __init__(self, seed: int) -> None:
        self._seed, self.closed = seed, -1
        self._states: dict[tuple[PeerId, str], ModelState] = {}
        self._report: Any = None

    def epoch(
        self, trainers: Mapping[PeerId, VerticalTrainer], rows: Mapping[PeerId, Array], alignment: str
    ) -> tuple[dict[str, str], str]:
        """Train an epoch; the digests of all bottom models, and of the top model."""
        hyper = next(iter(trainers.values())).defaults
        count, first = len(next(iter(rows.values()))), self.closed < 0
        bottoms = {
            peer: trainer.bottom_model(seed_for(self._seed, f"bottom:{peer}"), hyper)
            for peer, trainer in trainers.items()
        }
        widths = {peer: bottom.width for peer, bottom in bottoms.items() if bottom is not None}
        in_flight = min(trainer.in_flight for trainer in trainers.values())
        batches = AlignedBatches(count, hyper.b, self._seed, alignment)
        split = SplitPlan(widths, {PeerId(LABEL): None}, batches, in_flight)
        nodes = {}
        for peer, trainer in trainers.items():
            bottom, own, labels = bottoms[peer], rows[peer], None
            assert bottom is not None
            top = trainer.top_model(split.width, seed_for(self._seed, "top"), hyper)
            if not first:
                bottom.load(self._states[peer, "bottom"])
            if top is not None:
                if not first:
                    top.load(self._states[peer, "top"])
                labels = LabelHolder(peer, split, trainer.labels(own), top, report=self._report)
            features = FeatureHolder(peer, split, partial(_features, trainer, own), bottom, closed=self.closed)
            nodes[peer] = SplitNode(peer, features, labels)
        run_epoch(nodes)
        self.closed += 1
        for peer, node in nodes.items():
            assert node.features is not None
            self._states[peer, "bottom"] = node.features.bottom.state()
            if node.labels is not None:
                self._states[peer, "top"], self._report = node.labels.top.state(), node.labels.report
        return {str(p): self._states[p, "bottom"].digest for p in nodes}, self._states[PeerId(LABEL), "top"].digest


def _features(trainer: VerticalTrainer, rows: Array, places: RowNumbers) -> Array:
    return trainer.features(rows[places])


class VerticalCampaign:
    """Three holders of which one after another is killed within an epoch, and comes back."""

    def __init__(self, harness: CrashHarness, chance: Random) -> None:
        self.harness, self._chance, self.outcome = harness, chance, Outcome()
        self._seen: set[tuple[str, int]] = set()  # records of rounds, by node
        self._undisturbed: Undisturbed | None = None
        self._extra = 0

    @property
    def nodes(self) -> dict[str, RealNode]:
        """By name."""
        return {node.name: node for node in self.harness.nodes}

    def begin(self) -> None:
        """The first epoch, undisturbed."""
        self._to_its_end("n0", 0)

    def kill(self, kill: Kill) -> bool:
        """One kill, and the epoch to its end; False if the node did not pass the point."""
        nodes, closed = self.nodes, self._closed()
        victim = LABEL if kill.has_label else self._chance.choice([name for name in nodes if name != LABEL])
        others = [name for name in nodes if name != victim]
        initiator = victim if kill.is_initiator else self._chance.choice(others)
        if kill.stage == "aligning":
            self._change_ids(self._chance.choice(list(nodes)))
        point, times = ANYWHERE, 1
        if kill.stage != "any":
            point = self._chance.choice(POINTS[kill.stage])
            times = self._chance.randint(1, MOST_BATCHES) if kill.stage == "training" else 1
            number = max(node.job(T)["current_round"] for node in nodes.values()) + 1
            arm(self.harness.file(POINT, victim), point, number if kill.stage != "asking" else 0, times)
        self._trigger(initiator)
        if point == ANYWHERE:
            time.sleep(self._chance.uniform(0, LONGEST_KILL_SECONDS))
            nodes[victim].process.kill()
        until(lambda: self._is_dead(victim) or self._closed() > closed, f"death of {victim}, or the end of epoch")
        with suppress(subprocess.TimeoutExpired):  # the others may have ended the epoch while it dies
            nodes[victim].process.wait(DYING_SECONDS)
        died = self._is_dead(victim)
        self.harness.file(POINT, victim).unlink(missing_ok=True)
        if died:
            self.outcome.kills.append(f"{kill} {victim} {point} {times}")
            self._come_back(victim)
        else:
            self.outcome.missed += 1
        self._to_its_end(self._chance.choice(list(nodes)), closed + 1)
        return died

    def _change_ids(self, name: str) -> None:
        """Let a node have one id more than before, so that rows are aligned again."""
        self._extra += 1
        part = 1 + self.harness.nodes.index(self.nodes[name])
        with (self.harness.trainers / f"extra{part}").open("a") as file:
            file.write(f"only-{name}-{self._extra}\n")
        self.nodes[name].kill()
        self._come_back(name)

    def _come_back(self, name: str) -> None:
        self.harness.again(self.nodes[name])
        self.harness.up(self.nodes[name])
        self.harness.meshed(*self.harness.nodes)

    def _trigger(self, name: str) -> None:
        try:
            answer = self.nodes[name].trigger(T)
        except httpx.TransportError:  # it died before it could answer
            return
        assert answer.status_code in (202, 409), f"{name} starts no epoch: {answer.text}"

    def _to_its_end(self, starter: str, epoch: int) -> None:
        """Ask for the epoch until it has ended everywhere, and compare its models."""
        for _ in range(MOST_TRIES):
            until(self._is_at_rest, f"rest before or after epoch {epoch}")
            if self._is_whole(epoch):
                break
            assert self._closed() <= epoch, f"epoch {self._closed()} has ended, but {epoch} was to be trained"
            assert min(max(models.ended, default=-1) for models in self._models().values()) >= epoch - 1, (
                "more than one epoch is lost"
            )
            self._trigger(starter)
            time.sleep(0.2)
        assert self._is_whole(epoch), f"epoch {epoch} has not ended: {self._stated()}"
        self.outcome.epochs += 1
        self._compare(epoch)
        self._read_records()

    def _compare(self, epoch: int) -> None:
        """Compare the models of an epoch that has just ended with those of an undisturbed run."""
        models = self._models()
        labels = models[PeerId(LABEL)]
        report = labels.ended[epoch].report
        assert report is not None and labels.seed is not None
        if self._undisturbed is None:
            self._undisturbed = Undisturbed(labels.seed)
        rows = {peer: np.asarray(model.rows) for peer, model in models.items()}
        bottoms, top = self._undisturbed.epoch(self._trainers(), rows, labels.alignment)
        for what, got, expected in (
            ("alignments", {model.alignment for model in models.values()}, {labels.alignment}),
            ("bottom models", {str(peer): model.ended[epoch].bottom for peer, model in models.items()}, bottoms),
            ("bottom models as the label holder noted them", dict(report.bottoms), bottoms),
            ("top model", report.top, top),
        ):
            if got != expected:
                self.outcome.broken.append(f"epoch {epoch}: {what}: {got}, in an undisturbed run {expected}")

    def _trainers(self) -> dict[PeerId, VerticalTrainer]:
        path = self.harness.trainers / f"{T}.py"
        spec = importlib.util.spec_from_file_location("people_of_this_test", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return {
            PeerId(node.name): module.People(TrainerSettings(None, self.harness.folder, (part + 1, 9)))
            for part, node in enumerate(self.harness.nodes)
        }

    def _read_records(self) -> None:
        """Every round has a stated outcome; note which epochs were given up."""
        for node in self.harness.nodes:
            for record in node.history(T):
                key, words = (node.name, record["round"]), str(record["outcome"])
                if key in self._seen:
                    continue
                self._seen.add(key)
                reason = words.removeprefix("abandoned: ")
                if reason == words and not words.endswith("has ended"):
                    self.outcome.broken.append(f"{node.name}: round {record['round']} ended as {words!r}")
                elif reason != words:
                    self.outcome.lost.append(f"{node.name}: {reason}")

    def _models(self) -> dict[PeerId, VerticalModels]:
        """As they are on the disks."""
        models = {}
        for node in self.harness.nodes:
            saved = read_job(self.harness.state(node), T)
            assert saved is not None
            models[PeerId(node.name)] = VerticalModels.read(saved.snapshot["vertical"], saved.parts[1])
        return models

    def _closed(self) -> int:
        """The newest epoch that has ended, as far as nodes answer: one that was killed before it heard so is behind."""
        epochs = []
        for node in self.harness.nodes:
            try:
                epochs.append(node.job(T)["vertical"]["epochs"] - 1)
            except httpx.TransportError:
                continue
        return max(epochs, default=-1)

    def _is_whole(self, epoch: int) -> bool:
        """Whether an epoch has ended, and all have saved its models, also those that were killed before they heard so."""
        models = self._models().values()
        return max(model.closed for model in models) == epoch and all(epoch in model.ended for model in models)

    def _is_dead(self, name: str) -> bool:
        return self.nodes[name].process.poll() is not None

    def _is_at_rest(self) -> bool:
        """Whether no epoch is open or asked for, for a while."""
        end = time.monotonic() + REST_SECONDS
        while time.monotonic() < end:
            jobs = [node.job(T) for node in self.harness.nodes]
            if any(job["phase"] != "IDLE" or job["rounds_left"] for job in jobs):
                return False
            time.sleep(0.1)
        return True

    def _stated(self) -> str:
        return "; ".join(f"{node.name}: {node.history(T)[-1]['outcome']}" for node in self.harness.nodes)


@contextmanager
def campaign(folder: Path, seed: int, base_port: int, **settings: str) -> Iterator[VerticalCampaign]:
    """Three holders that are up and have trained an epoch."""
    harness = CrashHarness(folder, base_port)
    try:
        (harness.trainers / f"{T}.py").write_text(TRAINER)
        for _ in range(HOLDERS):
            harness.start(**SETTINGS, **settings)
        harness.ready()
        made = VerticalCampaign(harness, Random(seed))
        made.begin()
        yield made
    finally:
        harness.stop()


def run(kills: int, seed: int, folder: Path, base_port: int, compute: str) -> Outcome:
    """So many kills."""
    with campaign(folder, seed, base_port, COMPUTE=compute) as mesh:
        for kill in plan(Random(seed)):
            began, broken = time.monotonic(), len(mesh.outcome.broken)
            died = mesh.kill(kill)
            verdict = "BROKEN" if len(mesh.outcome.broken) > broken else "ok" if died else "not passed"
            words = mesh.outcome.kills[-1] if died else str(kill)
            click.echo(f"{len(mesh.outcome.kills):4} {words:<80} {time.monotonic() - began:5.1f} s  {verdict}")
            if len(mesh.outcome.kills) >= kills:
                break
    return mesh.outcome


def table(outcome: Outcome) -> str:
    """What was done and what came of it."""
    reasons = sorted(set(outcome.lost))
    return "\n".join(
        [
            f"kills {len(outcome.kills)}, points not passed {outcome.missed}, epochs {outcome.epochs}; all models "
            f"{'DIFFER from' if outcome.broken else 'equal'} those of an undisturbed run",
            *(f"given up {outcome.lost.count(reason)} times by {reason}" for reason in reasons),
            *(f"BROKEN {fault}" for fault in outcome.broken),
        ]
    )


@click.command()
@click.option("--kills", default=20, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--port", default=21800, show_default=True, help="Nodes take free ports from here on.")
@click.option("--compute", type=click.Choice(["thread", "process"]), default="thread", show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), help="Keep states and logs here.")
def main(kills: int, seed: int, port: int, compute: str, folder: Path | None) -> None:
    """Kill holders of a vertical job with SIGKILL at each stage; exit code 1 if a promise was broken."""
    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        outcome = run(kills, seed, place, port, compute)
    click.echo(table(outcome))
    raise SystemExit(1 if outcome.broken else 0)


if __name__ == "__main__":
    main()

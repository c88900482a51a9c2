"""Plays a schedule: what it says happens, all faults end, and then the mesh must come to rest."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flnet.params import PeerId
from flnet.simulation.cluster import Cluster, Listen
from flnet.simulation.deeds import Deeds, befall
from flnet.simulation.ledger import InvariantBroken
from flnet.simulation.rest import (
    acknowledged_is_named,
    agreement_bound,
    choices_agree,
    closed_by_all,
    disagreements,
    is_bounded,
    is_one,
)
from flnet.simulation.schedule import Reduction, Schedule, draw, words_of
from flnet.simulation.versions import reach_all
from flnet.simulation.weather import Weather

JOINING = 1.5  # seconds for the announcements of a mesh without faults
FINE = Weather(training=(0.2, 0.5), saving=(0.0, 0.03))
MOST_TO_REST = 20  # times that a job waits for an average: in these all rounds must close
MOST_OF_A_ROUND = 4  # likewise, in one round


@dataclass(frozen=True)
class Failure:
    """What a schedule broke."""

    schedule: Schedule
    words: str

    @property
    def kind(self) -> str:
        """The words without names and numbers: equal for one fault in different runs."""
        without = re.sub(r"\[.*?\]|\(.*?\)|\{.*?\}|'.*?'|\bn\d+\b|\d[\d.]*", "", self.words)
        return " ".join(without.split(":")[0].split()[:9])


def play(schedule: Schedule, listen: Listen | None = None) -> Failure | None:
    """Run a schedule to its end; what it broke, if anything.

    Args:
        listen: is told all that happens.
    """
    played = Play(schedule, listen)
    try:
        played.run()
    except InvariantBroken as exc:
        return Failure(schedule, str(exc))
    except Exception as exc:  # whatever is not foreseen is what is looked for
        return Failure(schedule, f"{type(exc).__name__}: {exc}")
    finally:
        played.cluster.end()
    return None


def broken_by(seeds: Iterable[int], most: int = 1, asynchronous: bool = False) -> list[Failure]:
    """What the schedules of these seeds break; it ends after so many failures.

    Python's search for cycles of objects is put off until the end, since it costs a fifth of the time, and leaves
    out what was there before.
    """
    found: list[Failure] = []
    gc.disable()
    gc.freeze()
    try:
        for seed in seeds:
            failure = play(Reduction(asynchronous=asynchronous).of(draw(seed)))
            if failure is not None:
                found.append(failure)
            if len(found) >= most:
                break
    finally:
        gc.enable()
        gc.collect()
        gc.unfreeze()
    return found


class Play:
    """One run of one schedule."""

    def __init__(self, schedule: Schedule, listen: Listen | None = None) -> None:
        self.schedule = schedule
        self.cluster = Cluster(
            schedule.size, schedule.seed, schedule.weather, schedule.waits, schedule.pauses, listen, schedule.rules
        )
        self.deeds = Deeds(self.cluster)

    def run(self) -> None:
        """Let everything happen.

        Raises:
            InvariantBroken: something that must always hold did not.
        """
        cluster, schedule = self.cluster, self.schedule
        cluster.weather = Weather()
        cluster.start()
        cluster.run_for(JOINING)
        cluster.weather = schedule.weather
        for action in schedule.actions:
            cluster.run_for(action.wait)
            self._look_while_calm()
            cluster.says("", words_of(action, schedule.size))
            self.deeds.do(action)
        cluster.run_for(2.0)
        self._end_faults()
        self._come_to_rest()
        if self.schedule.asynchronous:
            reach_all(cluster)
        else:
            self._clean_rounds()
        is_bounded(cluster, schedule.size)
        acknowledged_is_named(cluster)
        if not self.deeds.has_lost_disks:  # who lost one may have started a round twice
            choices_agree(cluster)

    def _look_while_calm(self) -> None:
        """Where nothing was disturbed for long enough, all hold the same of all, though rounds go on."""
        cluster = self.cluster
        calm = cluster.weather.is_calm and not cluster.network.cuts and not self.deeds.left
        steady = all(node.local.rate == 1.0 for node in cluster.alive)
        bound = agreement_bound(cluster.pauses, self.schedule.size)
        if calm and steady and cluster.clock.now - self.deeds.disturbed > bound:
            self._must_agree("though nothing had been disturbed for long")

    def _end_faults(self) -> None:
        cluster, deeds = self.cluster, self.deeds
        cluster.says("", "all faults end")
        cluster.weather = FINE
        cluster.run_for(
            max(1.0, deeds.disturbed - cluster.clock.now)
        )  # who is leaving is gone, and all loops go on
        dead = [node for node in cluster.nodes.values() if node.is_dead]
        staying = 0 if self.schedule.stays_dead and len(cluster.alive) >= 2 else len(dead)
        for node in dead[:staying]:
            deeds.revive(node)
        deeds.end_faults()

    def _come_to_rest(self) -> None:
        cluster, pauses = self.cluster, self.cluster.pauses
        if not cluster.run_until_idle(MOST_TO_REST * self.schedule.waits.average):
            stuck = {name: f"{cluster.nodes[name].job.phase}" for name in cluster.busy()}
            raise InvariantBroken(f"rounds do not close: {stuck}")
        end = cluster.clock.now + agreement_bound(pauses, self.schedule.size)
        while cluster.clock.now < end and disagreements(cluster):
            cluster.run_for(2 * pauses.tick)
        self._must_agree("after all faults")
        if not cluster.run_until_idle(MOST_TO_REST * self.schedule.waits.average):
            raise InvariantBroken(f"rounds do not close: {cluster.busy()}")
        for node in cluster.alive:
            if node.disk.fails or node.keeper.trouble:
                cluster.run_for(11.0)  # what could not be saved is tried again
        if troubled := [node.id for node in cluster.alive if node.keeper.trouble]:
            raise InvariantBroken(f"the disks of {troubled} work, but nothing is saved there")

    def _must_agree(self, when: str) -> None:
        if found := disagreements(self.cluster):
            raise InvariantBroken(f"no agreement {when}: {'; '.join(found[:4])}")

    def _clean_rounds(self) -> None:
        """One round brings all together; in the next one, what befalls one peer costs nobody else the round."""
        cluster, seed = self.cluster, self.schedule.seed
        names = sorted(node.id for node in cluster.alive)
        turned = [*names[seed % len(names) :], *names[: seed % len(names)]]
        self._begin([min(turned, key=lambda name: cluster.nodes[name].job.state.number)])  # who is furthest behind
        self._close()
        is_one(cluster)
        number = cluster.nodes[names[0]].job.state.number + 1
        starters = [names[(seed + i) % len(names)] for i in range(min(self.schedule.starters, len(names)))]
        self._begin(starters)
        if len(names) > 2:
            befall(self.deeds, self.schedule.ending, cluster.nodes[names[(seed + 1) % len(names)]], seed % 97 / 97)
        self._close()
        closed_by_all(cluster, number)
        if not self.schedule.ending:  # else an update may have reached some only
            is_one(cluster)

    def _begin(self, starters: Sequence[PeerId]) -> None:
        for name in starters:
            if not self.cluster.trigger(name):
                raise InvariantBroken(f"{name} refuses a round, though none is open")

    def _close(self) -> None:
        if not self.cluster.run_until_idle(MOST_OF_A_ROUND * self.schedule.waits.average):
            raise InvariantBroken(f"a clean round does not close: {self.cluster.busy()}")

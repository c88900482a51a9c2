"""Runs a schedule: its actions happen, all faults end, and then the mesh must come to rest and pass all checks.

The checks of a mesh at rest come first: agreement, one common model, complete records and bounded memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flnet.membership.probing import HELP_TICKS, MAX_DOUBT, Pauses, suspicion_ticks
from flnet.membership.roster import State
from flnet.params.params import PeerId
from flnet.protocol.messages import MAX_PEERS
from flnet.protocol.updates import RoundKey
from flnet.rounds.asynchronous_job import AsynchronousJob
from flnet.rounds.staleness import LATE
from flnet.simulation.actions import Actions
from flnet.simulation.cluster import Cluster, Listen
from flnet.simulation.invariants import InvariantBroken
from flnet.simulation.schedule import Faults, Schedule, described_action


def agreement_bound(pauses: Pauses, size: int) -> float:
    """Seconds after the last fault in which all nodes must agree about who is alive.

    A dead node is probed in its turn (every node probes all others in turn, at worst at an eighth of the pace),
    then by helpers, then suspected. A node that is wrongly held for dead is announced to after one and a half
    times the longest pause. Gossip that was missed is exchanged with a random peer, and needs some turns to
    reach all.
    """
    probed = (size + HELP_TICKS + 2) * MAX_DOUBT
    ticks = probed + suspicion_ticks(pauses, size, 1) + pauses.refresh * 8 * size
    return ticks * pauses.tick + pauses.longest * 1.5 + 2 * pauses.probe * MAX_DOUBT


def disagreements(cluster: Cluster) -> list[str]:
    """Which nodes hold a peer for something that it is not, or for another incarnation than its own."""
    alive = {node.id: node for node in cluster.alive}
    wrong = []
    for node in alive.values():
        known = node.core.members.known
        for name, peer in alive.items():
            if name == node.id:
                continue
            member = known.get(name)
            incarnation = peer.core.members.state.incarnation
            if member is None or member.state is not State.ALIVE or member.standing.incarnation != incarnation:
                held = "nobody" if member is None else f"{member.state.value} {member.standing.incarnation}"
                wrong.append(f"{node.id} holds {name} (alive {incarnation}) for {held}")
        dead = [name for name, member in known.items() if member.alive and name not in alive]
        wrong += [f"{node.id} holds {name} (gone) for {known[name].state.value}" for name in dead]
    return wrong


def check_one_model(cluster: Cluster) -> None:
    """Check that all nodes hold the same model of the same round; where they average with neighbours alone, one of it.

    Raises:
        InvariantBroken: they do not.
    """
    held = {node.id: node.job for node in cluster.alive}
    rounds = {name: job.number for name, job in held.items()}
    if len(set(rounds.values())) > 1:
        raise InvariantBroken(f"after a clean round the nodes are in rounds {rounds}")
    if cluster.is_sparse:
        old = {name: job.held.current.round for name, job in held.items() if job.held.current.round != job.number}
        if any(len(held[name].history.records[-1].chosen or ()) > 1 for name in old):  # else it had no neighbour
            raise InvariantBroken(f"after a clean round nodes hold models of rounds {old}, not of {rounds}")
        return
    models = {name: job.held.digest[:8] for name, job in held.items() if job.held.digest}
    if len(set(models.values())) > 1 or len(models) != len(held):
        raise InvariantBroken(f"after a clean round the nodes hold models {models}")


def check_closed_by_all(cluster: Cluster, number: int, *, was_disturbed: bool = False) -> None:
    """Check that every live node has averaged this round with the updates of all live nodes that were chosen.

    Updates may be missing that were offered and could not be fetched, or come from a slow node and count later,
    or were left out by every node that had the same updates because they moved too far. (Trainings move at
    random here, so another update may have moved by next to nothing.) A node that came too late may take the average.
    A node that could not be reached while the group of a secure sum formed is not in it.

    Args:
        number: of the round.
        was_disturbed: whether a node could not be reached for a while.

    Raises:
        InvariantBroken: a node closed the round without a peer.
    """
    lags = {node.id for node in cluster.alive if node.job.staleness.behind or node.job.staleness.late}
    names = {node.id for node in cluster.alive} - lags
    records = {
        node: next((r for r in node.job.history.records if r.key.number >= number), None) for node in cluster.alive
    }
    refused = {
        node.id: (cluster.ledger.left_out(node.id, record.key), set(record.contributors))
        for node, record in records.items()
        if record
    }
    for node, record in records.items():
        is_pair = was_disturbed and record is not None and record.chosen is not None and len(record.chosen) == 2
        if is_pair and cluster.is_secure and record is not None and record.digest is None:
            continue  # of two whose updates are masked, none may vanish
        if record is None or record.digest is None:
            raise InvariantBroken(f"{node.id} has no average of the last round")
        if record.taken_from is not None:
            continue  # the ledger has checked it
        averaging = node.job.round.gathering if node.job.round else None
        reasons = averaging.declined if averaging is not None else {}
        excuses = ("could not be fetched", *(("secure sum",) if was_disturbed else ()))
        named = {name for name, why in reasons.items() if any(words in why for words in excuses)}
        named |= {name for name in names if f"{name}: {LATE}" in record.outcome}
        chosen = names if record.chosen is None else names & set(record.chosen)
        by_all = set.intersection(*_refused_alike(refused, node.id))
        if missing := chosen - set(record.contributors) - named - by_all:
            raise InvariantBroken(f"{node.id} closed the last round without {sorted(missing)}: {record.outcome}")


def _refused_alike(refused: Mapping[PeerId, tuple[set[PeerId], set[PeerId]]], node: PeerId) -> list[set[PeerId]]:
    """The senders that each node left out that had the same updates as this node."""
    had = set.union(*refused[node])
    return [left_out for left_out, counted in refused.values() if left_out | counted == had]


def check_choices(cluster: Cluster) -> None:
    """Check that all nodes chose the same participants in each round.

    Raises:
        InvariantBroken: two chose differently.
    """
    chosen: dict[RoundKey, tuple[PeerId, ...]] = {}
    for node in cluster.nodes.values():
        for record in node.job.history.records:
            if record.chosen is not None and chosen.setdefault(record.key, record.chosen) != record.chosen:
                raise InvariantBroken(
                    f"{node.id} chose {record.chosen} for {record.key}, not {chosen[record.key]}"
                )


def check_bounds(cluster: Cluster, size: int) -> None:
    """Check that no node remembers more than a mesh of this size justifies.

    Raises:
        InvariantBroken: a node does.
    """
    for node in cluster.alive:
        mesh, job = node.core.members.state, node.job
        amounts = {
            "members": (len(mesh.roster.known), min(size - 1, MAX_PEERS)),
            "pieces of gossip": (len(mesh.roster.gossip), size * (size + 1)),
            "probes": (len(mesh.prober.checks), size),
            "announcements": (len(mesh.announcer.asking) + len(mesh.announcer.failures), 2 * size),
            "requests for help": (len(mesh.helping), size),
            "words of later rounds": (len(job.inbox.early), size),
            "versions": (len(job.versions.heard) if isinstance(job, AsynchronousJob) else 0, size),
            "peers that were away": (len(job.peers.away), size),
        }
        rounds = [record.key for record in job.history.records]
        amounts["records"] = (len(rounds), len(set(rounds)))
        for what, (count, most) in amounts.items():
            if count > most:
                raise InvariantBroken(f"{node.id} keeps {count} {what}, where {most} are enough")


def check_acknowledged(cluster: Cluster) -> None:
    """Check that an acknowledged update is in the average, or the record says that it is missing or left out.

    Raises:
        InvariantBroken: an update is neither.
    """
    for node in cluster.alive:
        for record in node.job.history.records:
            owed = cluster.ledger.acknowledged(node.id, record.key)
            is_stated = "; left out: " in record.outcome
            left_out = cluster.ledger.left_out(node.id, record.key) if is_stated else set()
            is_made = record.digest is not None and record.taken_from is None
            if is_made and (lost := owed - left_out - {*record.contributors, *record.missing}):
                raise InvariantBroken(
                    f"{node.id} says nothing of {sorted(lost)} in {record.key}: {record.outcome}"
                )


def check_versions(cluster: Cluster) -> None:
    """Wake each node of an asynchronous mesh once, and check that it merges the newest version of every other one.

    Raises:
        InvariantBroken: a version was not merged.
    """
    for node in sorted(cluster.alive, key=lambda node: node.id):
        if not cluster.trigger(node.id):
            raise InvariantBroken(f"{node.id} refuses a version, though none is under way")
        if not cluster.run_until_idle(200):
            raise InvariantBroken(f"a version does not end: {cluster.busy()}")
        job = node.job
        assert isinstance(job, AsynchronousJob)
        if job.held.own is None or job.held.own.key.number != job.number:
            raise InvariantBroken(f"{node.id} made no version though nothing was disturbed")
        for other in cluster.alive:
            own = other.job.held.own
            if other is node or own is None or own.key.number == 0:
                continue
            merged = job.versions.merged.get(other.id)
            refused = f"left out: {other.id}" in job.history.records[-1].outcome
            if not refused and (merged is None or merged.mark.digest != own.params.digest):
                raise InvariantBroken(f"{node.id} has not merged version {own.key.number} of {other.id}")


JOINING = 1.5  # seconds in which nodes announce themselves, without faults
AFTERWARDS = Faults(training=(0.2, 0.5), saving=(0.0, 0.03))  # once the faults of the schedule have ended
MOST_TO_REST = 20  # in so many timeouts of an average, all rounds must close
MOST_OF_A_ROUND = 4  # likewise for a single round
MOST_CLEAN = 4  # further rounds until one has a sum, where updates are masked


class Play:
    """One run of one schedule."""

    def __init__(self, schedule: Schedule, listen: Listen | None = None) -> None:
        self.schedule = schedule
        self.cluster = self.make_cluster(listen)
        self.actions = self.make_actions()

    def make_actions(self) -> Actions:
        """What performs the actions of the schedule."""
        return Actions(self.cluster)

    def make_cluster(self, listen: Listen | None) -> Cluster:
        """The mesh of the schedule."""
        s = self.schedule
        return Cluster(s.size, s.seed, s.faults, s.waits, s.pauses, listen, s.rules, is_keyed=s.keyed)

    def run(self) -> None:
        """Run the schedule, and check everything.

        Raises:
            InvariantBroken: a check failed.
        """
        cluster, schedule = self.cluster, self.schedule
        self._act()
        self._end_faults()
        self._come_to_rest()
        if self.schedule.asynchronous:
            check_versions(cluster)
        else:
            self._clean_rounds()
        check_bounds(cluster, schedule.size)
        check_acknowledged(cluster)
        # A node that lost its disk may have started a round twice.
        if not (self.actions.has_lost_disks or cluster.is_sparse):
            check_choices(cluster)

    def _act(self) -> None:
        """Let the nodes join, and perform all actions."""
        cluster, schedule = self.cluster, self.schedule
        cluster.faults = Faults()
        cluster.start()
        cluster.run_for(JOINING)
        cluster.faults = schedule.faults
        for action in schedule.actions:
            cluster.run_for(action.wait)
            self._check_while_calm()
            cluster.log("", described_action(action, schedule.size))
            self.actions.perform(action)
        cluster.run_for(2.0)

    @property
    def size(self) -> int:
        """How many nodes the mesh may consist of, in the view of its nodes."""
        return self.schedule.size

    def disagreements(self) -> list[str]:
        """What nodes hold of each other wrongly."""
        return disagreements(self.cluster)

    @property
    def is_calm(self) -> bool:
        """Whether nothing was disturbed for so long that all nodes must agree."""
        cluster = self.cluster
        calm = cluster.faults.is_calm and not cluster.network.cuts and not self.actions.left
        steady = all(node.local.rate == 1.0 for node in cluster.alive)
        bound = agreement_bound(cluster.pauses, self.size)
        return calm and steady and cluster.clock.now - self.actions.disturbed > bound

    def _check_while_calm(self) -> None:
        """If nothing was disturbed for long enough, all nodes must agree, although rounds go on."""
        if self.is_calm:
            self._check_agreement("though nothing had been disturbed for long")

    def _end_faults(self) -> None:
        cluster, actions = self.cluster, self.actions
        cluster.log("", "all faults end")
        cluster.faults = AFTERWARDS
        cluster.run_for(max(1.0, actions.disturbed - cluster.clock.now))  # until stalls and departures are over
        dead = [node for node in cluster.nodes.values() if node.is_dead]
        if not self.schedule.stays_dead or len(cluster.alive) < 2:
            for node in dead:
                actions.revive(node)
        actions.end_faults()

    def _come_to_rest(self) -> None:
        cluster, pauses = self.cluster, self.cluster.pauses
        if not cluster.run_until_idle(MOST_TO_REST * self.schedule.waits.average):
            stuck = {name: f"{cluster.nodes[name].job.phase}" for name in cluster.busy()}
            raise InvariantBroken(f"rounds do not close: {stuck}")
        end = cluster.clock.now + agreement_bound(pauses, self.size)
        while cluster.clock.now < end and self.disagreements():
            cluster.run_for(2 * pauses.tick)
        self._check_agreement("after all faults")
        if not cluster.run_until_idle(MOST_TO_REST * self.schedule.waits.average):
            raise InvariantBroken(f"rounds do not close: {cluster.busy()}")
        for node in cluster.alive:
            if node.disk.fails or node.saver.trouble:
                cluster.run_for(11.0)  # a save that failed is tried again
        if troubled := [node.id for node in cluster.alive if node.saver.trouble]:
            raise InvariantBroken(f"the disks of {troubled} work, but nothing is saved there")

    def _check_agreement(self, when: str) -> None:
        if wrong := self.disagreements():
            raise InvariantBroken(f"no agreement {when}: {'; '.join(wrong[:4])}")

    def _clean_rounds(self) -> None:
        """Run a round that brings all nodes together, and one in which a fault of one peer affects nobody else."""
        cluster, seed = self.cluster, self.schedule.seed
        names = sorted(node.id for node in cluster.alive)
        turned = [*names[seed % len(names) :], *names[: seed % len(names)]]
        self._trigger([min(turned, key=lambda name: cluster.nodes[name].job.number)])  # furthest behind
        self._close()
        # A round of two has no sum if one of them sits it out.
        for _ in range(MOST_CLEAN if cluster.is_secure else 0):
            if any(node.job.error for node in cluster.alive):
                self._trigger([max(turned, key=lambda name: cluster.nodes[name].job.number)])
                self._close()
        check_one_model(cluster)
        number = cluster.nodes[names[0]].job.number + 1
        starters = [names[(seed + i) % len(names)] for i in range(min(self.schedule.starters, len(names)))]
        self._trigger(starters)
        if len(names) > 2:
            victim = cluster.nodes[names[(seed + 1) % len(names)]]
            self.actions.disturb(self.schedule.ending, victim, seed % 97 / 97)
        self._close()
        check_closed_by_all(cluster, number, was_disturbed=bool(self.schedule.ending))
        if not self.schedule.ending:  # otherwise an update may have reached only some nodes
            check_one_model(cluster)

    def _trigger(self, starters: Sequence[PeerId]) -> None:
        for name in starters:
            if not self.cluster.trigger(name):
                raise InvariantBroken(f"{name} refuses a round, though none is open")

    def _close(self) -> None:
        if self.cluster.is_sparse:
            self.cluster.run_for(2.0)  # a node without neighbours closes its round before others hear the start
        if not self.cluster.run_until_idle(MOST_OF_A_ROUND * self.schedule.waits.average):
            raise InvariantBroken(f"a clean round does not close: {self.cluster.busy()}")

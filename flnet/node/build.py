"""Puts a node together from its settings: which codec, transport, store, pool and strategy it uses."""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from typing import Any

from flnet.errors import InvalidMessage, SettingsError
from flnet.events import TrustChanged
from flnet.jobs import Rules, Waits
from flnet.jobs.rules import TRAINING
from flnet.keys import own_key
from flnet.messages import Peer
from flnet.node import gate
from flnet.node.chronicle import Chronicle
from flnet.node.conditions import Conditions
from flnet.node.core import NodeCore
from flnet.node.desk import Desk
from flnet.node.door import Door
from flnet.node.gains import Gains
from flnet.node.importing import Imports
from flnet.node.keyed import signing_of
from flnet.node.lane import Lane
from flnet.node.merging import stated_rule, strategy_for
from flnet.node.perform import Performer
from flnet.node.pinned import pinned_of
from flnet.node.post import Post
from flnet.node.runtime import NodeRuntime
from flnet.node.scheduling import Schedules
from flnet.node.shelf import Shelf
from flnet.node.spare import SpareMemory
from flnet.node.timers import Timers
from flnet.node.trust import Trust
from flnet.node.watching import Watch
from flnet.node.wire import Wire, accepted, encoding_of
from flnet.params import PeerId, TrainerId
from flnet.policies import Participation
from flnet.policies.schedule import Schedule
from flnet.screening import Bounds
from flnet.settings import Settings
from flnet.signing import NodeKey
from flnet.store import Retention, Store
from flnet.store.disk import DiskStore, identity
from flnet.training import Pool, TrainerFile, find_trainers, make_pool
from flnet.training.backend import method_of, state_folder
from flnet.training.labelling import labels_of
from flnet.transport import HttpTransport, Transport

MEGABYTE = 1024 * 1024


def build_node(settings: Settings) -> NodeRuntime:
    """A node as the settings want it, over HTTP; nothing runs before `start`.

    Raises:
        SettingsError: FLNET_TRAINERS_PATH is no folder, a trainer that is asked for does not exist, FLNET_LABELS
            says too little, or the key of the mesh is too short.
        StartError: a key cannot be read.
    """
    labels_of(settings)
    nodes: list[NodeRuntime] = []

    def tell(*told: Any) -> None:
        nodes[0].feed.publish(*told)

    folder = state_folder(settings)
    key = own_key(folder)
    files, signing = find_trainers(settings), signing_of(settings, folder)
    store = DiskStore(folder, Retention.of(settings))
    pinned = pinned_of(settings, folder, key.text, store, tell)
    signing = pinned.signing if pinned else signing

    def on_progress(trainer: str, done: int, total: int) -> None:
        nodes[0].on_progress(TrainerId(trainer), done, total)

    pool = make_pool(settings, on_progress, files)
    networks = gate.networks_for(settings)
    transport = HttpTransport(
        settings.request_timeout_in_seconds,
        random.Random(),
        networks=networks,
        max_reply_bytes=settings.max_body_megabytes * MEGABYTE,
        seal=signing.seal if signing else None,
        channel=pinned.channel if pinned else None,
    )
    trainers = [TrainerId(found.id) for found in files]
    name, told = identity(folder, settings.node_id)
    me = Peer(id=name, ip=settings.node_ip, port=settings.node_port)
    trust, parts = pinned.trust if pinned else None, (pool, transport, store)
    signer = signing.node if signing else None
    node = assemble(settings, me, trainers, *parts, files=files, key=key.text, trust=trust, signer=signer)
    node.door = Door(signing.gate, node.feed.publish, node.trust) if signing else None
    nodes.append(node)
    if told:
        node.feed.publish("renamed", told)
    for notice in key.notices:
        node.feed.publish("key_was_open", notice)
    node.gate.networks = networks
    return node


def assemble(
    settings: Settings,
    me: Peer,
    trainers: list[TrainerId],
    pool: Pool,
    transport: Transport,
    store: Store,
    *,
    files: Sequence[TrainerFile] = (),
    key: str | None = None,
    trust: Trust | None = None,
    signer: NodeKey | None = None,
) -> NodeRuntime:
    """A node from parts; the in-memory twins of each part make a mesh inside one process.

    Args:
        key: public key by which it is known; None for one that could not keep it.
        trust: of a pinned mesh.
        signer: with which it signs what it states of its updates.
    """
    spare = SpareMemory()
    strategy, form = strategy_for(settings.aggregation, spare.take), settings.wire
    core = _core(settings, me, trainers, strategy.running is not None, key)
    shelf, chronicle = Shelf(core, store), Chronicle(core, store)
    wire = Wire(core, store, form, settings.max_body_megabytes * MEGABYTE)

    def make_performer(node: NodeRuntime) -> Performer:
        said = _lane_settings(settings, signer)
        lane = Lane(pool, strategy, PeerId(me.id), settings.seed, lambda one: core.jobs[one].state, **said)
        post = Post(transport, wire, core.members, node.deliver, spare, node.traffic, node.distances)
        _compare(node, settings, pool, lane)
        post.must_prove, post.trust = settings.mode != "open", trust
        return Performer(store, shelf, post, lane, Timers(node.deliver, random.Random()), node.feed, node.deliver)

    node = NodeRuntime(
        core,
        make_performer,
        wire=wire,
        transport=transport,
        store=store,
        pool=pool,
        shelf=shelf,
        desk=Desk(core, shelf, pool, chronicle),
        chronicle=chronicle,
        spare=spare,
        bootstrap=settings.bootstrap_pairs,
    )
    node.imports, node.trust = _imports(node, pool, settings, files), _pinned(node, trust)
    node.gate.signer = signer
    _plan(node, settings)
    return node


def _compare(node: NodeRuntime, settings: Settings, pool: Pool, lane: Lane) -> None:
    """Who measures what each peer brings; without common rounds, no average is made by all."""
    is_on = settings.leave_one_out and settings.rounds == "common"
    node.gains = Gains(node.core, pool, node.feed.publish, is_on=is_on)
    lane.keep = node.gains.keep if is_on else None


def _pinned(node: NodeRuntime, trust: Trust | None) -> Trust | None:
    if trust is not None:
        trust.changed = lambda gone, come: node.deliver(None, TrustChanged(tuple(gone), tuple(come)))
    return trust


def _plan(node: NodeRuntime, settings: Settings) -> None:
    """What the node does without being asked: rounds by a schedule, and data from watched folders."""
    node.schedules = Schedules(node.core, node.deliver, usual_schedule(settings), Conditions())
    if settings.watch_data is not None:
        node.watch = Watch(node.core, node.imports, node.feed, settings.watch_data)


def _core(settings: Settings, me: Peer, trainers: list[TrainerId], folds: bool, key: str | None) -> NodeCore:
    prune, accepts = settings.prune_unresponsive_nodes, accepted(settings.wire)
    waits, rules = waits_of(settings), rules_of(settings)
    return NodeCore(
        me,
        trainers,
        waits,
        prune=prune,
        accepts=accepts,
        folds=folds,
        key=key,
        rules=rules,
        run=secrets.token_hex(8),
    )


def _imports(node: NodeRuntime, pool: Pool, settings: Settings, files: Sequence[TrainerFile]) -> Imports:
    where = (files, settings.datasets_path, settings.max_import_gigabytes)
    return Imports(node.core, pool, node.feed, node.deliver, *where)


def usual_schedule(settings: Settings) -> Schedule:
    """When rounds start by themselves on this node, where a person said nothing else of a job.

    Raises:
        SettingsError: FLNET_TRAIN_WHEN is no schedule.
    """
    if settings.watch_data is not None and settings.train_when == "never":
        return Schedule(new=1)
    try:
        return Schedule.parse(settings.train_when)
    except InvalidMessage as exc:
        raise SettingsError(f"FLNET_TRAIN_WHEN={settings.train_when}: {exc.message}") from exc


def own_hyper_of(settings: Settings) -> dict[str, int]:
    """The hyper-parameters that this node trains with whatever a round says."""
    own = {"e": settings.local_epochs, "b": settings.local_batch_size}
    return {name: value for name, value in own.items() if value is not None}


def _lane_settings(settings: Settings, signer: NodeKey | None) -> dict[str, Any]:
    """How a node trains and averages, beside what rounds say."""
    form = encoding_of(settings.wire)
    return {"own_hyper": own_hyper_of(settings), "encoding": form, "bounds": bounds_of(settings), "signer": signer}


def rules_of(settings: Settings) -> Rules:
    """What people set of rounds."""
    participation = Participation(settings.participation, settings.min_participants)
    mu = method_of(settings).mu
    training = {TRAINING: f"proximal:{mu:g}"} if mu else {}
    alike = {**bounds_of(settings).stated(), **stated_rule(settings.aggregation), **training}
    return Rules(participation, settings.max_staleness, alike, settings.rounds == "asynchronous")


def bounds_of(settings: Settings) -> Bounds:
    """How far updates may move."""
    return Bounds(settings.max_update_norm, settings.clip_norm)


def waits_of(settings: Settings) -> Waits:
    """How long jobs wait, from the two settings that the thesis has for it."""
    base = settings.wait_time_in_seconds_to_force_fedavg
    margin = settings.wait_time_in_seconds_to_force_fedavg_margin
    return Waits(average=base, margin=margin, start=min(5.0, base / 4), claims=base + margin)

"""Builds a node from its settings: which transport, store, process pool, aggregation rule and networks it uses."""

from __future__ import annotations

import random
import secrets
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from flnet.aggregation.base import AggregationRule
from flnet.aggregation.screening import Bounds
from flnet.algorithms.registry import parse_rule, stated_rule
from flnet.algorithms.topology import Topology
from flnet.compute.assignment import labels_of, method_of
from flnet.compute.loader import find_trainers
from flnet.compute.privacy_accounting import plan_of
from flnet.compute.queue import ComputeQueue, make_queue
from flnet.compute.tasks import ComputeTasks
from flnet.errors import InvalidMessage, SettingsError
from flnet.networks import OWN_MACHINE, PRIVATE, Networks, address_of, networks_of
from flnet.node.core import NodeCore
from flnet.node.data_import import DataImports, FolderWatcher
from flnet.node.event_queue import Timers
from flnet.node.formats import BodyFormats, BufferPool, accepted
from flnet.node.lan_discovery import LanDiscovery
from flnet.node.leave_one_out import LeaveOneOut
from flnet.node.model_registry import ModelRegistry
from flnet.node.model_service import ModelService
from flnet.node.outbox import Outbox
from flnet.node.own_trainers import OwnTrainers
from flnet.node.performer import Performer
from flnet.node.relay import Relay
from flnet.node.relay_client import RelayClient
from flnet.node.relay_messages import RelayKeys
from flnet.node.round_history import RoundHistory
from flnet.node.runtime import NodeRuntime
from flnet.node.schedules import Conditions, Schedules
from flnet.node.trust import Pinned, Signing, Trust, pinned_of, signing_of, tls_of
from flnet.params.params import PeerId, TrainerId
from flnet.protocol.events import TrustChanged
from flnet.protocol.messages import Peer
from flnet.rounds.limits import Limits
from flnet.rounds.participation import Participation
from flnet.rounds.schedule import Schedule
from flnet.rounds.settings import TRAINING, Rules, Waits
from flnet.security.claims import ClaimSigner
from flnet.security.keys import own_key
from flnet.security.signatures import NodeKey
from flnet.settings import LOOPBACK, Settings
from flnet.store.base import Retention, Store
from flnet.store.sqlite_store import DiskStore
from flnet.store.state_folder import identity
from flnet.trainer import TrainerFile
from flnet.wire.http import HttpTransport
from flnet.wire.transport import Transport

if TYPE_CHECKING:
    from flnet.node.notices import NoticeSender
    from flnet.wire.notice_channels import Channel

WIDEST = 16  # bits at least that the network of an own interface has in common
MEGABYTE = 1024 * 1024


def networks_for(settings: Settings) -> Networks:
    """The networks of the settings; see FLNET_ALLOWED_NETWORKS for what they are if nobody says.

    The default lets a mesh inside of one network work. Nodes of other private networks may call, and are called back
    where they called from; what others say of such networks is no reason to call there: a person has to name them.
    """
    pairs = [pair.rpartition(":") for pair in settings.bootstrap_pairs]
    relay = [settings.relay.rpartition(":")] if settings.relay else []
    hosts = [host.strip("[]") for host, _, _ in (*pairs, *relay)]
    ports = [int(port) for _, _, port in pairs]
    host, port = settings.listen_address.strip("[]"), settings.node_port
    at_home = settings.relay is None and (host in LOOPBACK or host.startswith("127."))
    allowed = settings.allowed_networks or (OWN_MACHINE if at_home else (*OWN_MACHINE, *interfaces()))
    callers = () if settings.allowed_networks or at_home else PRIVATE
    everywhere = (address_of(host) or address_of("0.0.0.0")) in (address_of("0.0.0.0"), address_of("::"))  # noqa: S104
    own = [settings.node_ip or "", *(own_addresses() if everywhere else [host])]
    return Networks(allowed, named=hosts, ports=ports, own=own, port=port, callers=callers)


def own_addresses() -> list[str]:
    """The IP addresses of this machine."""
    addresses = [
        entry.address.partition("%")[0] for entries in psutil.net_if_addrs().values() for entry in entries
    ]
    return [address for address in addresses if address_of(address) is not None]


def interfaces() -> list[str]:
    """The networks that this machine has an address in, but for those that are too wide to be its own."""
    networks = []
    for entry in (address for entries in psutil.net_if_addrs().values() for address in entries):
        address = address_of(entry.address.partition("%")[0])
        if address is None or entry.netmask is None:
            continue
        length = sum(
            bin(int(part, 16 if ":" in entry.netmask else 10)).count("1") for part in _parts(entry.netmask)
        )
        if length >= WIDEST:
            wide = int(address) >> (address.max_prefixlen - length) << (address.max_prefixlen - length)
            networks += [str(network) for network in networks_of([f"{type(address)(wide)}/{length}"])]
    return networks


def _parts(netmask: str) -> Iterable[str]:
    return filter(None, netmask.partition("/")[0].replace(":", ".").split("."))


def build_node(settings: Settings) -> NodeRuntime:
    """A node as the settings want it, over HTTP; nothing runs before `start`.

    Raises:
        SettingsError: FLNET_TRAINERS_PATH is no folder, a trainer that is asked for does not exist, FLNET_LABELS
            says too little, or the key of the mesh is too short.
        StartError: a key cannot be read.
    """
    labels_of(settings.labels)
    nodes: list[NodeRuntime] = []

    def tell(*notice_of_name: Any) -> None:
        nodes[0].feed.publish(*notice_of_name)

    folder = settings.folder
    key = own_key(folder)
    files, signing = find_trainers(settings), signing_of(settings, folder)
    store = DiskStore(folder, Retention.of(settings))
    pinned = pinned_of(settings, folder, key.text, store, tell)
    signing = pinned.signing if pinned else signing

    def on_progress(trainer: str, done: int, total: int) -> None:
        nodes[0].on_progress(TrainerId(trainer), done, total)

    by_id = {TrainerId(file.id): file for file in files}
    pool = make_queue(settings, on_progress, by_id)
    networks = networks_for(settings)
    transport = _transport(settings, networks, signing, pinned)
    trainers = [TrainerId(file.id) for file in files]
    name, notice_of_name = identity(folder, settings.node_id)
    me = Peer(id=name, ip=settings.node_ip, port=settings.node_port)
    trust, parts = pinned.trust if pinned else None, (pool, transport, store)
    signer = signing.node if signing else None
    node = assemble(settings, me, trainers, *parts, files=by_id, key=key.text, trust=trust, signer=signer)
    node.signing = signing.verifier if signing else None
    node.machine = "" if settings.node_id else socket.gethostname()
    if settings.discovery == "lan":
        where = [settings.node_ip] if settings.node_ip and address_of(settings.node_ip) else []
        node.discovery = LanDiscovery(name, settings.mesh_name, settings.node_port, where)
    _relay(node, settings, signing, pinned, networks)
    node.notices = notices_of(settings, node)
    node.loads_first = [TrainerId(file.id) for file in files if _has_data(file, settings.datasets_path)]
    nodes.append(node)
    if notice_of_name:
        node.feed.publish("renamed", notice_of_name)
    for notice in key.notices:
        node.feed.publish("key_was_open", notice)
    node.checks.networks = networks
    return node


def _transport(
    settings: Settings, networks: Networks, signing: Signing | None, pinned: Pinned | None
) -> HttpTransport:
    return HttpTransport(
        settings.request_timeout_in_seconds,
        random.Random(),
        networks=networks,
        signer=signing.signer if signing else None,
        channel=pinned.channel if pinned else None,
        mesh=settings.mesh_name,
    )


def _relay(
    node: NodeRuntime, settings: Settings, signing: Signing | None, pinned: Pinned | None, networks: Networks
) -> None:
    """Make a node a relay, or let others reach it through one, as the settings want it.

    In an open mesh nothing else than an address shows who may use a relay; in others a key does, from wherever it comes.
    """
    keys = RelayKeys(settings.mesh_name)
    if signing is not None:
        trusts = pinned.trust.trusts if pinned else None
        keys = RelayKeys(settings.mesh_name, signing.node, signing.mesh, trusts)
    if settings.relay_ports is not None:
        node.relay = Relay(
            settings.listen_address,
            settings.relay_ports.ports,
            keys,
            admits=networks.admits if signing is None else lambda _: True,
            tls=tls_of(settings, settings.folder, node.feed.publish),
            publish=node.feed.publish,
            tell_refused=node.checks.tell_refused,
        )
    if settings.relay is not None:
        tls = (pinned.channel.known, pinned.channel.name) if pinned else (None, "")
        node.relay_link = RelayClient(settings.relay, node.me.id, keys, tls=tls, publish=node.feed.publish)


def notices_of(settings: Settings, node: NodeRuntime, channels: Sequence[Channel] = ()) -> NoticeSender | None:
    """What tells people of this node; None without a channel.

    Args:
        channels: besides those of the settings.

    Raises:
        StartError: a file with a secret cannot be read.
    """
    if not (settings.notify_url or settings.notify_mail or settings.notify_mail_file or channels):
        return None
    from flnet.node.notices import NoticeRules, NoticeSender, channels_of  # noqa: PLC0415 - few nodes need the mail library

    def alone(trainer: str, round: int) -> bool:
        return any(each["round"] == round and each.get("alone") for each in node.history(TrainerId(trainer)))

    def budget(trainer: str) -> Mapping[str, Any] | None:
        view = node.job(TrainerId(trainer)).privacy
        return None if view is None else view.model_dump()

    rules = NoticeRules(settings.notify_lost_seconds, settings.notify_accuracy_fall, alone, budget)
    return NoticeSender(
        rules,
        [*channels_of(settings), *channels],
        node.feed,
        node=node.machine or node.me.id,
        mesh=settings.mesh_name,
        pause_seconds=settings.notify_pause_seconds,
    )


def assemble(
    settings: Settings,
    me: Peer,
    trainers: list[TrainerId],
    pool: ComputeQueue,
    transport: Transport,
    store: Store,
    *,
    files: dict[TrainerId, TrainerFile] | None = None,
    key: str | None = None,
    trust: Trust | None = None,
    signer: NodeKey | None = None,
) -> NodeRuntime:
    """A node from parts; the in-memory twins of each part make a mesh inside one process.

    Args:
        files: what is known of the trainers, by id; those that come later are added to it.
        key: public key by which it is known; None for one that could not keep it.
        trust: of a pinned mesh.
        signer: with which it signs what it states of its updates and claims of members.
    """
    buffers, files = BufferPool(), {} if files is None else files
    rule = parse_rule(settings.aggregation, buffers.take)
    core = _core(settings, me, trainers, rule.adds_as_they_come, key, tuple(files.values()))
    registry, history = ModelRegistry(core, store), RoundHistory(core, store)
    wire = BodyFormats(core, store, settings.wire, settings.max_body_megabytes * MEGABYTE)

    def make_performer(node: NodeRuntime) -> Performer:
        tasks = _tasks(settings, core, pool, rule, signer, wire)
        _leave_one_out(node, settings, tasks, pool)
        claims = _claim_signer(node, settings, signer)
        outbox = Outbox(transport, wire, core.members, node.deliver, buffers, node.traffic, node.distances, claims)
        outbox.must_prove, outbox.trust, outbox.downloads = settings.mode != "open", trust, store.downloads
        timers = Timers(node.deliver, random.Random())
        return Performer(store, registry, outbox, tasks, timers, node.feed, node.deliver, node.id_predictions)

    node = NodeRuntime(
        core,
        make_performer,
        wire=wire,
        transport=transport,
        store=store,
        pool=pool,
        registry=registry,
        service=ModelService(core, registry, pool, history),
        history=history,
        buffers=buffers,
        bootstrap=settings.bootstrap_pairs,
    )
    _follow_trust(node, settings, trust)
    _bring_data_and_rounds(node, pool, settings, files)
    node.own_trainers = OwnTrainers(core, settings, files, transport, node.peers, node.add_trainer)
    return node


def _claim_signer(node: NodeRuntime, settings: Settings, signer: NodeKey | None) -> ClaimSigner | None:
    claims = ClaimSigner(signer, node.core.members, settings.mesh_name) if signer is not None else None
    node.checks.signer, node.checks.claims = signer, claims
    return claims


def _leave_one_out(node: NodeRuntime, settings: Settings, tasks: ComputeTasks, pool: ComputeQueue) -> None:
    is_on = settings.leave_one_out and settings.rounds == "common"  # else no average is made by all
    node.leave_one_out = LeaveOneOut(node.core, pool, node.feed.publish, is_on=is_on)
    tasks.keep = node.leave_one_out.keep if is_on else None


def _follow_trust(node: NodeRuntime, settings: Settings, trust: Trust | None) -> None:
    node.trust, node.mesh_name = trust, settings.mesh_name
    if trust is not None:
        trust.changed = lambda gone, come: node.deliver(None, TrustChanged(tuple(gone), tuple(come)))


def _core(
    settings: Settings,
    me: Peer,
    trainers: list[TrainerId],
    folds: bool,
    key: str | None,
    files: Sequence[TrainerFile] = (),
) -> NodeCore:
    return NodeCore(
        me,
        trainers,
        waits_of(settings),
        prune=settings.prune_unresponsive_nodes,
        accepts=accepted(settings.wire),
        folds=folds,
        key=key,
        rules=rules_of(settings),
        run=secrets.token_hex(8),
        proves_keys=settings.mode != "open",
        vertical=[file.id for file in files if file.kind == "vertical"],
        seals=settings.mode == "pinned",
    )


def _tasks(
    settings: Settings,
    core: NodeCore,
    pool: ComputeQueue,
    rule: AggregationRule,
    signer: NodeKey | None,
    wire: BodyFormats,
) -> ComputeTasks:
    return ComputeTasks(
        pool,
        rule,
        PeerId(core.me.id),
        settings.seed,
        core.jobs.__getitem__,
        own_hyper=own_hyper(settings),
        encoding=wire.agreed_encoding,
        bounds=bounds_of(settings),
        signer=signer,
        mesh=settings.mesh_name,
    )


def _has_data(file: TrainerFile, folder: Path | None) -> bool:
    """Whether something lies where a trainer looks for data."""
    return folder is not None and bool(file.place) and (folder / file.place).exists()


def _bring_data_and_rounds(
    node: NodeRuntime, pool: ComputeQueue, settings: Settings, files: Mapping[TrainerId, TrainerFile]
) -> None:
    """Imports of data, watched folders, and rounds that start by a schedule."""
    folders = (settings.datasets_path, settings.folder / "own-data")
    where = (files, folders, settings.max_import_gigabytes, settings.max_import_seconds)
    node.imports = DataImports(node.core, pool, node.feed, node.deliver, *where)
    node.schedules = Schedules(node.core, node.deliver, usual_schedule(settings), Conditions())
    if settings.watch_data is not None:
        node.watch = FolderWatcher(node.core, node.imports, node.feed, settings.watch_data)


def usual_schedule(settings: Settings) -> Schedule:
    """The schedule of the settings, for jobs without a schedule of their own.

    Raises:
        SettingsError: FLNET_TRAIN_WHEN is no schedule, or one that would do nothing.
    """
    if settings.watch_data is not None and settings.train_when == "never":
        return Schedule(new=1)
    try:
        return Schedule.asked(settings.train_when)
    except InvalidMessage as exc:
        raise SettingsError(f"FLNET_TRAIN_WHEN={settings.train_when}: {exc.message}") from exc


def rules_of(settings: Settings) -> Rules:
    """The rules of rounds that the settings contain.

    Raises:
        SettingsError: the library for FLNET_PRIVACY is not installed.
    """
    topology = Topology.read(settings.topology)
    is_named = topology.kind != "mesh"
    participation = Participation(settings.participation, settings.min_participants, names_all=is_named)
    mu = method_of(settings).mu
    training: dict[str, str] = {TRAINING: f"proximal:{mu:g}"} if mu else {}
    alike = {**bounds_of(settings).stated(), **stated_rule(settings.aggregation), **training}
    is_asynchronous = settings.rounds == "asynchronous"
    return Rules(
        participation,
        settings.max_staleness,
        alike,
        is_asynchronous,
        limits=limits_of(settings),
        privacy=plan_of(settings),
        topology=topology,
        bounds=bounds_of(settings),
        counts=settings.share_counts,
        group=settings.group or "",
        owned=settings.owned_segments,
    )


def limits_of(settings: Settings) -> Limits:
    """What starts of other nodes may ask for."""
    return Limits(
        settings.max_peer_epochs,
        settings.max_peer_batch_size,
        settings.max_peer_batches,
        settings.max_peer_learning_rate,
        own_hyper(settings),
    )


def own_hyper(settings: Settings) -> dict[str, float]:
    """The hyper-parameters (e, u, b) that this node trains with whatever a round says."""
    own = {"e": settings.local_epochs, "u": settings.local_learning_rate, "b": settings.local_batch_size}
    return {name: value for name, value in own.items() if value is not None}


def bounds_of(settings: Settings) -> Bounds:
    """How far updates may move."""
    return Bounds(settings.max_update_norm, settings.clip_norm)


def waits_of(settings: Settings) -> Waits:
    """How long jobs wait, from the two settings that the thesis has for it, and when training processes end.

    Those of other nodes end by their own setting, which is the usual one as a rule, and some seconds earlier or later.
    """
    base = settings.wait_time_in_seconds_to_force_fedavg
    margin = settings.wait_time_in_seconds_to_force_fedavg_margin
    rest = min(settings.worker_idle_seconds, Settings.model_fields["worker_idle_seconds"].default) / 2
    return Waits(average=base, margin=margin, start=min(5.0, base / 4), claims=base + margin, rest=rest)

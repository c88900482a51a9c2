"""All settings of one node: name, type, unit, default and description.

Every setting is an environment variable FLNET_<NAME>, an option --<name> and a line of flnet.toml. Options override
variables, variables override the file, and the file overrides the default.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import SplitResult, parse_qs, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from flnet.errors import SettingsError
from flnet.fingerprints import check_key, fingerprint, read_fingerprint
from flnet.joining import JoinLink
from flnet.names import DEFAULT_MESH, check_called_host, check_host, check_mesh_name, check_name
from flnet.networks import LEAST_PORT, Cidrs

NUMBER = re.compile(r"[0-9]{1,9}")
PORT_RANGE = f'expected "first-last", 3 to 1000 ports from {LEAST_PORT} to 65535, such as 9200-9219'
_PARTITION = re.compile(r"(iid|groups|(dirichlet|pathological|quantity|power):[0-9]{1,9}([.][0-9]{1,9})?)")

_MAILBOX = re.compile(r"[A-Za-z0-9._%+=-]{1,64}@[A-Za-z0-9.-]{1,255}")
_NUMBER = "[0-9]{1,9}([.][0-9]{1,9})?"
_PART = "(0([.][0-9]{1,9})?|1)"
_LOCAL_TRAINING = re.compile(f"plain|proximal(:{_NUMBER})?")
_PERSONAL_MODEL = re.compile(
    rf"none|apfl(:{_PART}(:{_NUMBER}(:(sgd|momentum|adam))?)?)?|increment(:[1-9][0-9]{{0,3}})?"
)


def split_list(value: Any) -> Any:
    """Parse a list: "a,b" from variables and options, an array from TOML."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _in_form(text: str, form: re.Pattern[str], expected: str) -> str:
    if not form.fullmatch(text.strip()):
        raise ValueError(expected)
    return text.strip()


def check_local_training(text: str) -> str:
    """Check the form of the text and strip it; `flnet.trainer` checks the rest.

    Raises:
        ValueError: there is no such training.
    """
    return _in_form(text, _LOCAL_TRAINING, "expected plain, proximal or proximal:0.01")


def check_personal_model(text: str) -> str:
    """Check the form of the text and strip it; `flnet.trainer` checks the rest.

    Raises:
        ValueError: there is no such model.
    """
    return _in_form(
        text, _PERSONAL_MODEL, "expected none, apfl, apfl:0.5:0.01, apfl:0.5:0.01:adam, increment or increment:5"
    )


def check_partition(text: str) -> str:
    """Check the form of the text and strip it; `flnet.datasets.partition` checks the rest.

    Raises:
        ValueError: it has no form that there is.
    """
    return _in_form(
        text, _PARTITION, "expected iid, groups, dirichlet:0.3, pathological:2, quantity:0.5 or power:1"
    )


def check_topology(text: str) -> str:
    """Check how updates travel.

    Raises:
        ValueError: there is no such topology.
    """
    from flnet.algorithms.topology import Topology  # noqa: PLC0415 - needs a part of the core, which most commands do not

    Topology.read(text)
    return text


def _is_allowed(topology: str, rule: str) -> bool:
    from flnet.algorithms.registry import parse_rule  # noqa: PLC0415 - likewise
    from flnet.algorithms.topology import Topology  # noqa: PLC0415 - likewise

    return Topology.read(topology).allows(parse_rule(rule))


def check_aggregation(text: str) -> str:
    """Check an aggregation rule with its filters, and remove spaces.

    Raises:
        ValueError: there is no such rule or filter.
    """
    from flnet.algorithms.registry import check_rule  # noqa: PLC0415 - needs numpy, which most commands do not

    return check_rule(text)


def check_privacy(text: str) -> str:
    """Check what FLNET_PRIVACY promises, and strip it.

    Raises:
        ValueError: it is no promise that there is.
    """
    from flnet.algorithms import differential_privacy  # noqa: PLC0415 - needs numpy, which most commands do not

    return differential_privacy.check_privacy(text)


def check_notify_url(text: str) -> str:
    """Check the address of a webhook, and strip it.

    Raises:
        ValueError: it is none; the message does not repeat it, as such addresses are often secret.
    """
    parts = _url(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.fragment:
        raise ValueError("expected http:// or https:// with a host")
    return text.strip()


def check_notify_mail(text: str) -> str:
    """Check the address of a mail server with its recipients, and strip it.

    Raises:
        ValueError: it is none; the message does not repeat it, as it may hold a password.
    """
    parts = _url(text)
    try:
        asked = parse_qs(parts.query, strict_parsing=True, max_num_fields=2)
    except ValueError:
        asked = {}
    mailboxes = ",".join(values[0] for values in asked.values()).split(",")
    has_all = parts.scheme in ("smtp", "smtps") and parts.hostname and {"to"} <= asked.keys() <= {"to", "from"}
    if not has_all or not all(_MAILBOX.fullmatch(each.strip()) for each in mailboxes):
        raise ValueError("expected smtps://user:password@host:465?to=ana@example.org&from=node@example.org")
    return text.strip()


def _url(text: str) -> SplitResult:
    try:
        parts = urlsplit(text.strip())
        is_whole = parts.port != 0 and text.strip().isprintable() and " " not in text.strip()
    except ValueError:
        is_whole = False
    if not is_whole:
        raise ValueError("expected an address such as https://example.org/hook")
    return parts


class Shard(BaseModel):
    """The shard of a data set that this node uses: part `index` (from 1) of `count`, written "2/10"."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        index, _, count = value.partition("/")
        if not NUMBER.fullmatch(index) or not NUMBER.fullmatch(count):
            raise ValueError('expected "i/n" with 1 <= i <= n')
        return {"index": int(index), "count": int(count)}

    @model_validator(mode="after")
    def _in_range(self) -> Shard:
        if not 1 <= self.index <= self.count:
            raise ValueError('expected "i/n" with 1 <= i <= n')
        return self


class PortRange(BaseModel):
    """The ports of a relay, the first and the last one included, written "9200-9219"."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    @property
    def ports(self) -> range:
        """All of them."""
        return range(self.first, self.last + 1)

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        first, _, last = value.strip().partition("-")
        if not NUMBER.fullmatch(first) or not NUMBER.fullmatch(last):
            raise ValueError(PORT_RANGE)
        return {"first": int(first), "last": int(last)}

    @model_validator(mode="after")
    def _in_range(self) -> PortRange:
        if not (self.first >= LEAST_PORT and self.last <= 65535 and 3 <= len(self.ports) <= 1000):
            raise ValueError(PORT_RANGE)
        return self


def at_home(value: Any) -> Any:
    """Expand a leading "~" to the home folder, which no shell may have done."""
    if not isinstance(value, str):
        return value
    try:
        return str(Path(value).expanduser())
    except RuntimeError as exc:
        raise ValueError(f"{value!r} names the home of a user that this machine does not know") from exc


def check_pair(value: Any) -> str:
    """Check one "host:port".

    Raises:
        ValueError: it is none.
    """
    text = str(value)
    host, colon, port = text.rpartition(":")
    if not colon or not NUMBER.fullmatch(port) or not 1 <= int(port) <= 65535:
        raise ValueError(f'expected "ip:port" with a port from 1 to 65535, got {text!r}')
    check_called_host(host.removeprefix("[").removesuffix("]"))
    return text


def check_host_name(value: str) -> str:
    """Check a host name without a port, and make it lower case.

    Raises:
        ValueError: it is none.
    """
    check_host(value)
    return value.lower()


Folder = Annotated[Path, BeforeValidator(at_home)]
Names = Annotated[tuple[str, ...], BeforeValidator(split_list)]
Hosts = Annotated[tuple[Annotated[str, AfterValidator(check_host_name)], ...], BeforeValidator(split_list)]
Pairs = Annotated[tuple[Annotated[str, BeforeValidator(check_pair)], ...], BeforeValidator(split_list)]


PREFIX = "FLNET_"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
Mode = Literal["open", "keyed", "pinned"]  # which nodes may take part


def check_mark(text: str) -> str:
    """Parse the whole fingerprint of a node, or make it from a public key in base64.

    Raises:
        ValueError: it is neither; says which group has a typing error.
    """
    try:
        return fingerprint(check_key(text.strip()))
    except ValueError:
        return read_fingerprint(text)


Marks = Annotated[tuple[Annotated[str, AfterValidator(check_mark)], ...], BeforeValidator(split_list)]


class PlaceSettings(BaseModel):
    """Settings of a node's place in the mesh: name, addresses, peers, keys and tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    node_id: Annotated[str, AfterValidator(check_name)] | None = Field(
        default=None, description="Name of this node in the mesh; a new UUID if absent."
    )
    node_ip: Annotated[str, AfterValidator(check_called_host)] | None = Field(
        default=None,
        description="Address at which peers reach this node; if absent, the address that its requests come from.",
    )
    node_port: int = Field(default=4000, ge=1, le=65535, description="TCP port of the REST API and the page.")
    listen_address: str = Field(
        default="127.0.0.1",
        description="Address to listen on. The default accepts connections from this machine only; 0.0.0.0 "
        "accepts them from the network.",
    )
    bootstrap_pairs: Pairs = Field(
        default=(), description='Peers to announce to at the start, "ip:port,ip:port". They may start later.'
    )
    join: str | None = Field(
        default=None,
        description="Join link of a mesh, as the page of each of its nodes shows it: flnet://192.168.1.11:4000/?mesh=... "
        "It stands for bootstrap_pairs, mesh_name, mesh_mode and, in a pinned mesh, trusted_peers.",
    )
    discovery: Literal["none", "lan"] = Field(
        default="none",
        description="How this node finds others: lan: it announces itself on the local networks by multicast DNS, with "
        "the name of the mesh, and meets the nodes of that name that do so too; needs the extra lan. "
        "none: it knows bootstrap_pairs only.",
    )
    relay: Annotated[str, BeforeValidator(check_pair)] | None = Field(
        default=None,
        description='Relay through which others reach this node, if nothing else leads to it: "host:port" of a node of '
        "the mesh and of the first of its relay_ports (docs/overlays.md).",
    )
    relay_ports: PortRange | None = Field(
        default=None,
        description="Ports with which this node is a relay for nodes that others do not reach, such as 9200-9219: the "
        "first two for these nodes, and one of the others for each of them (docs/overlays.md). If absent, it is none.",
    )
    allowed_hosts: Hosts = Field(
        default=(),
        description="Further host names that requests to this node may use, separated by commas, such as names "
        "from your DNS. Addresses, localhost, node_ip, node_id and the machine's name are always allowed.",
    )
    operator_token: str | None = Field(
        default=None,
        min_length=16,
        max_length=512,
        pattern=r"^[A-Za-z0-9._~+/=-]+$",
        description="Token with which people on other machines sign in; if absent, the node creates one and "
        "keeps it in its state folder.",
    )
    operator_token_file: Folder | None = Field(
        default=None, description="File that contains the operator token, instead of the token itself."
    )
    trust_loopback: bool = Field(
        default=True,
        description="Whether callers on this machine need no token. Set it to false if a reverse proxy runs on "
        "this machine, or if other people have accounts on it.",
    )
    mesh_name: Annotated[str, AfterValidator(check_mesh_name)] = Field(
        default=DEFAULT_MESH,
        description="Name of the mesh: nodes with another name and this one refuse each other, so that two meshes "
        "on one machine or network stay apart. Must be the same on all nodes. It is no secret and protects against "
        "mistakes only.",
    )
    mesh_key: str | None = Field(
        default=None,
        description="A secret of 16 or more characters that all nodes of the mesh share. With it, nodes sign the "
        "messages between them, and refuse messages that are not signed.",
    )
    mesh_key_file: Folder | None = Field(default=None, description="File that contains the mesh key.")
    other_mesh_key: str | None = Field(
        default=None,
        description="A second mesh key that is accepted as well, while the key of a mesh is changed without stopping "
        "it (docs/keyed-meshes.md). This node signs with mesh_key.",
    )
    other_mesh_key_file: Folder | None = Field(default=None, description="File that contains the second mesh key.")
    mesh_mode: Mode | None = Field(
        default=None,
        description="Which nodes may take part: open (every node that reaches this one), keyed (nodes that know "
        "the mesh key) or pinned (TLS; nodes whose fingerprint a person accepted). If absent, keyed if there is "
        "a mesh key, else open. The node does not start if mode and keys contradict each other.",
    )
    trusted_peers: Marks = Field(
        default=(),
        description="In a pinned mesh: fingerprints of nodes that are accepted, separated by commas.",
    )
    introducers: Marks = Field(
        default=(),
        description="In a pinned mesh: fingerprints of nodes that are accepted, together with the nodes that "
        "people accepted there; separated by commas.",
    )

    @property
    def accepts_other_mesh_key(self) -> bool:
        """Whether two mesh keys are accepted."""
        return self.other_mesh_key is not None or self.other_mesh_key_file is not None

    @property
    def mode(self) -> Mode:
        """Which nodes may take part."""
        if self.mesh_mode == "pinned":
            return "pinned"
        return "open" if self.mesh_key is None and self.mesh_key_file is None else "keyed"

    @model_validator(mode="after")
    def _one_secret_of_each(self) -> Self:
        self._check_one_of_each("operator_token", "mesh_key", "other_mesh_key")
        return self

    def _check_one_of_each(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) is not None and getattr(self, f"{name}_file") is not None:
                raise ValueError(f"give {PREFIX}{name.upper()} or {PREFIX}{name.upper()}_FILE, not both")

    @model_validator(mode="after")
    def _one_mode(self) -> Self:
        if self.mesh_mode == "keyed" and self.mode == "open":
            raise ValueError(f"{PREFIX}MESH_MODE=keyed needs a {PREFIX}MESH_KEY or {PREFIX}MESH_KEY_FILE")
        if self.mesh_mode == "open" and self.mode == "keyed":
            raise ValueError(f"{PREFIX}MESH_MODE=open has no use for a key: leave one of the two away")
        if self.mode == "pinned" and (self.mesh_key is not None or self.mesh_key_file is not None):
            raise ValueError(f"{PREFIX}MESH_MODE=pinned has no use for a mesh key: leave one of the two away")
        if self.accepts_other_mesh_key and self.mode != "keyed":
            raise ValueError(f"{PREFIX}OTHER_MESH_KEY needs a {PREFIX}MESH_KEY or {PREFIX}MESH_KEY_FILE")
        if self.mode != "pinned" and (self.trusted_peers or self.introducers):
            raise ValueError(f"{PREFIX}TRUSTED_PEERS and {PREFIX}INTRODUCERS need {PREFIX}MESH_MODE=pinned")
        return self

    @model_validator(mode="after")
    def _one_way_to_be_reached(self) -> Self:
        if self.relay is not None and self.relay_ports is not None:
            raise ValueError(
                f"{PREFIX}RELAY_PORTS is for a node that others reach, so it has no {PREFIX}RELAY itself"
            )
        if self.relay is not None and self.node_ip is not None:
            raise ValueError(f"with {PREFIX}RELAY others reach this node at the relay: leave {PREFIX}NODE_IP away")
        if self.relay_ports is not None and self.node_port in self.relay_ports.ports:
            raise ValueError(
                f"{PREFIX}RELAY_PORTS={self.relay_ports} has the {PREFIX}NODE_PORT in it: choose others"
            )
        return self

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.listen_address in LOOPBACK:
            if self.discovery == "lan":
                raise ValueError(
                    f"discovery=lan tells other machines of this node, but it listens on {self.listen_address} only: "
                    f"set {PREFIX}LISTEN_ADDRESS=0.0.0.0 too"
                )
            for pair in self.bootstrap_pairs if self.relay is None else ():
                host = pair.rpartition(":")[0].strip("[]")
                if host not in LOOPBACK and not host.startswith("127."):
                    raise ValueError(
                        f"bootstrap_pairs names {pair!r} on another machine, but this node listens on "
                        f"{self.listen_address} only and could not be reached from there: "
                        f"set {PREFIX}LISTEN_ADDRESS=0.0.0.0 too"
                    )
        return self


# Names of settings whose values are shown to nobody.
SECRET = re.compile("key|token|secret|password|notify_url|notify_mail")
Source = Literal["default", "page", "file", "variable", "option"]  # of a value
# What people may change on the page: it concerns this node alone, and neither who may reach it, nor what others learn of
# its data, nor what it reads and runs on its machine.
CHANGEABLE = frozenset(
    {
        *("personal_model", "model_choice", "wire", "leave_one_out", "group", "watch_data", "train_when"),
        *("wait_time_in_seconds_to_force_fedavg", "wait_time_in_seconds_to_force_fedavg_margin"),
        *("request_timeout_in_seconds", "prune_unresponsive_nodes", "compute_threads", "worker_idle_seconds"),
        *("local_epochs", "local_batch_size", "local_learning_rate", "validation_share", "max_training_seconds"),
        *("max_peer_epochs", "max_peer_batch_size", "max_peer_batches", "max_peer_learning_rate"),
        *("max_import_gigabytes", "max_import_seconds", "logging_level"),
        *("keep_models", "keep_model_megabytes", "keep_rounds", "keep_events"),
        *("notify_lost_seconds", "notify_accuracy_fall", "notify_pause_seconds"),
    }
)


class Settings(PlaceSettings):
    """All settings of one node, frozen."""

    datasets_path: Folder | None = Field(default=None, description="Folder in which trainers look for data sets.")
    data_shard: Shard = Field(
        default=Shard(index=1, count=1),
        description='For experiments that divide one data set: this node uses shard i of n, "i/n".',
    )
    data_partition: Annotated[str, AfterValidator(check_partition)] = Field(
        default="iid",
        description="How the shards of data_shard differ: iid (alike), dirichlet:0.3 (shares of labels, drawn at "
        "random), pathological:2 (labels per shard), quantity:0.5 or power:1 (sizes), groups (rows of a group "
        "stay together). Must be the same on all nodes.",
    )
    labels: Folder | None = Field(
        default=None,
        description="TOML file that describes the labels of this node's rows, for a mesh whose nodes use "
        "different labels (docs/labels.md); if absent, all nodes use the same labels.",
    )
    state_path: Folder | None = Field(
        default=None, description="Folder for data that must survive a restart; ~/.flnet/node-<port> if absent."
    )
    tmp_path: Folder | None = Field(
        default=None, description="Folder for temporary files; the system's if absent."
    )
    trainers: Names = Field(
        default=(),
        description="Ids of the trainers to offer, separated by commas; all but those for research if empty.",
    )
    trainers_path: Folder | None = Field(
        default=None, description="Folder with further trainers, one file or folder each."
    )
    aggregation: Annotated[str, AfterValidator(check_aggregation)] = Field(
        default="agg1",
        description="How updates become one model: a mean (agg0 uniform, agg1 by examples, agg2 by examples x "
        "labels), a mean followed by a step of an optimiser (fedavgm:1:0.9, fedadam:0.01, fedyogi:0.01), a mean "
        "with control variates (scaffold), or a rule that tolerates hostile updates: median, trimmed-mean:0.2 "
        "(part left out at each end), winsorised-mean:0.2 (part moved to the next), geometric-median, krum:1, "
        "multi-krum:1, bulyan:1 (how many may be hostile), consistency (weights by how well each update was "
        "predicted from earlier ones), or consistency:bounded (over numbers held to the range of the others). "
        "Filters go before the rule, separated by commas: clip (updates are shortened to the median norm, with "
        "clip:2.5 to that norm), cosine (updates that point away from the median are left out). secure, secure,agg0 or "
        "secure:0.25:64 (part of the nodes that may vanish, bits of a number): updates are masked, and only their sum "
        "can be opened (docs/secure-sums.md). Must be the same on all nodes.",
    )
    topology: Annotated[str, AfterValidator(check_topology)] = Field(
        default="mesh",
        description="How updates travel. mesh: each node sends its update to all others. segments, or segments:3: each "
        "node averages a segment of all updates (each segment by 3 nodes), so that it sends about 2 models in a round (4), "
        "however many nodes there are; above 100 nodes, messages add to that (docs/scale.md). random:2: each node averages "
        "its update with those of 2 others, drawn in each round, and nodes hold different models; ring: likewise with the "
        "same 2 others (docs/topology.md). Must be the same on all nodes.",
    )
    owned_segments: int = Field(
        default=4,
        ge=1,
        le=4,
        description="With FLNET_TOPOLOGY=segments: how many segments of the average this node owns, as compared with "
        "other nodes. 1 for a node with a slow link: from the second round on it averages a quarter of what others do.",
    )
    local_training: Annotated[str, AfterValidator(check_local_training)] = Field(
        default="plain",
        description="plain: the trainer's own training. proximal:0.01: training stays near the model that the "
        "round began with, and nearer with a larger number (FedProx); for nodes whose data differ. Must be the "
        "same on all nodes.",
    )
    personal_model: Annotated[str, AfterValidator(check_personal_model)] = Field(
        default="none",
        description="A local model of this node, in addition to the common one. increment: the common model plus "
        "the changes that this node learns after each average (increment:5: in 5 epochs). apfl:0.5:0.01: a "
        "second model that is mixed with the common one; the numbers are its initial share and the learning rate "
        "of that share. Other nodes do not need to use the same value.",
    )
    model_choice: Literal["by-input", "local", "global"] = Field(
        default="by-input",
        description="Which of the two models makes predictions: by-input (with increment: the local one for "
        "inputs that resemble this node's data), local or global.",
    )
    rounds: Literal["common", "asynchronous"] = Field(
        default="common",
        description="common: all nodes train in the same rounds. asynchronous: there are no common rounds; each "
        "node trains by itself and merges the newest models of the others. Must be the same on all nodes.",
    )
    participation: float = Field(
        default=1,
        gt=0,
        le=1,
        description="Fraction of the nodes that train in a round; all nodes average. Must be the same on all nodes.",
    )
    min_participants: int = Field(
        default=2,
        ge=1,
        le=257,
        description="Minimum number of nodes that train in a round, whatever the fraction is. Must be the same "
        "on all nodes.",
    )
    max_update_norm: float = Field(
        default=100,
        ge=0,
        allow_inf_nan=False,
        description="Limit for the L2 norm of an update's change, as a multiple of the median of its round. "
        "Updates above it are refused if the round has three or more updates. 0: no limit. Must be the same on "
        "all nodes.",
    )
    clip_norm: float = Field(
        default=0,
        ge=0,
        allow_inf_nan=False,
        description="L2 norm to which updates are shortened, this node's own before it is sent. 0: no limit. "
        "Must be the same on all nodes.",
    )
    max_staleness: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="How many rounds late an update may be and still count, with a lower weight. Other nodes "
        "then do not wait for nodes that are much slower. 0: late updates do not count. Must be the same on all "
        "nodes.",
    )
    privacy: Annotated[str, AfterValidator(check_privacy)] = Field(
        default="none",
        description="Differential privacy of this node's updates. node:3:1e-5 hides all rows of the node together from "
        "who reads its updates, with epsilon 3 and delta 1e-5: the change of each update is shortened to the norm 1 "
        "(node:3:1e-5:0.5: to 0.5) and gets noise. rows:3:1e-5 hides each row: gradients of rows are shortened and get "
        "noise. Needs the extra privacy. When the budget is spent, the node sits rounds out (docs/privacy.md). Other "
        "nodes do not need to use the same value, except where the nodes of a secure sum share the noise: node with "
        "FLNET_AGGREGATION=secure,agg0.",
    )
    privacy_rounds: int = Field(
        default=20,
        ge=1,
        le=100_000,
        description="Trainings of each trainer that the privacy budget is planned for: the more, the more noise each gets.",
    )
    privacy_budget: str = Field(
        default="main",
        pattern=r"^[A-Za-z0-9._-]{1,64}$",
        description="Name of the privacy budget. Another name begins a new budget, for data of which nothing was sent "
        "yet; what was spent under other names is kept.",
    )
    wire: Literal["safetensors", "float16", "int8", "json"] = Field(
        default="safetensors",
        description="Format of updates for peers that can read it: safetensors (exact), float16 or int8 (half or "
        "a quarter of the bytes; the rounding error is sent with the next update), or json (the format of the "
        "thesis only).",
    )
    wait_time_in_seconds_to_force_fedavg: float = Field(
        default=60,
        gt=0,
        description="Seconds after this node's training until it averages without the peers that are missing.",
    )
    wait_time_in_seconds_to_force_fedavg_margin: float = Field(
        default=5,
        ge=0,
        description="Maximum of the random time added to that wait, in seconds, so that nodes do not act at the "
        "same moment.",
    )
    leave_one_out: bool = Field(
        default=False,
        description="Whether to measure, after the last round of a series, the accuracy of the average without "
        "each peer. Only the operator of this node sees the result. It takes one average and one measurement for "
        "each peer.",
    )
    group: Annotated[str, AfterValidator(check_name)] | None = Field(
        default=None,
        description="Group that all test rows of this node belong to, such as small-schools. The mesh then shows the "
        "accuracy of each group. Peers see the name.",
    )
    share_counts: bool = Field(
        default=True,
        description="Whether to tell peers how many test rows of each class the average judged rightly and wrongly, so "
        "that the mesh has exact figures of all test rows together. If false, this node tells its accuracy and the number "
        "of its test rows, and the mesh has a mean weighted by rows.",
    )
    request_timeout_in_seconds: float = Field(
        default=30, gt=0, description="Timeout of a request to a peer in seconds, for all attempts together."
    )
    prune_unresponsive_nodes: bool = Field(
        default=False,
        description="Whether to forget a peer that does not answer, instead of trying it again from time to time.",
    )
    compute: Literal["process", "thread", "shared"] = Field(
        default="process",
        description="Where training runs: in a child process of low priority (process), in the node's own process "
        "(thread; less memory, for debugging), or in one child process for all nodes of this machine, one after the "
        "other (shared; needs fork_server, and flnet demo sets both where memory is short).",
    )
    compute_threads: int = Field(
        default=1,
        ge=0,
        le=256,
        description="CPU threads that a framework may use for training; 0: one for each processor that the node "
        "may use, which flnet demo divides among its nodes. More than 1 is useful on a machine that does nothing "
        "else.",
    )
    local_epochs: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Epochs that this node trains in each round, instead of the e that the round was started with.",
    )
    local_batch_size: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Batch size on this node, instead of the b that the round was started with.",
    )
    local_learning_rate: float | None = Field(
        default=None,
        gt=0,
        le=1_000,
        description="Learning rate on this node, instead of the u that the round was started with: for data on which the "
        "rate of the others diverges, or is too low.",
    )
    max_peer_epochs: int = Field(
        default=1_000,
        ge=1,
        le=10_000,
        description="Most epochs that a round started by another node may ask of this node. If it asks for more, "
        "this node sits the round out. The same holds for the three limits that follow; what a trainer declares as "
        "its defaults is always allowed.",
    )
    max_peer_batch_size: int = Field(
        default=4_096,
        ge=1,
        le=1_000_000,
        description="Largest batch, in examples, that a round started by another node may ask of this node.",
    )
    max_peer_batches: int = Field(
        default=100_000,
        ge=1,
        le=10**12,
        description="Most batches, in all epochs together, that a round started by another node may ask of this "
        "node.",
    )
    max_peer_learning_rate: float = Field(
        default=10.0,
        ge=1,
        le=1_000_000,
        description="Largest learning rate that a round started by another node may ask of this node, as a multiple "
        "of the trainer's default.",
    )
    max_training_seconds: float | None = Field(
        default=None,
        gt=0,
        description="Seconds after which a local training ends, at the end of the current batch. The update "
        "counts, weighted by the examples that were used until then. For slow nodes.",
    )
    validation_share: float = Field(
        default=0.0,
        ge=0,
        le=0.5,
        description="Share of the training rows that trainers whose data sets have no validation rows hold back for "
        "validation (SMALL_DIGITS, DIGIT_DOMAINS, PICTURE_GROUPS), so that goals and comparisons of models are decided by "
        "them. With 0 test rows decide.",
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        default="auto",
        description="Device for training: cpu, cuda (an NVIDIA GPU), mps (an Apple GPU), or auto, which uses a "
        "GPU if there is one.",
    )
    worker_idle_seconds: float = Field(
        default=60,
        gt=0,
        description="Seconds without work after which the training process ends to free its memory.",
    )
    fork_server: Folder | None = Field(
        default=None,
        description="Socket of a process that forks the training processes of all nodes of this machine, so that "
        "a framework is imported only once; flnet demo sets it.",
    )
    max_body_megabytes: int = Field(
        default=512,
        ge=1,
        description="Maximum size of a request body; the actual limit follows the size of the models.",
    )
    allowed_networks: Cidrs = Field(
        default=(),
        description="Networks in which this node calls peers that other nodes named, such as 10.1.0.0/16, "
        "separated by commas. If empty: only this machine if the node listens on loopback, else the networks of "
        "this machine's interfaces. Peers in bootstrap_pairs may be in any network, and peers that call from a "
        "private address are called back there. A relay of an open mesh serves callers from all of these.",
    )
    max_import_gigabytes: float = Field(
        default=8, gt=0, le=100_000, description="Maximum size of an import, packed and unpacked."
    )
    max_import_seconds: float = Field(
        default=3600,
        gt=0,
        description="Seconds that a trainer may take to load imported data. After that its process is ended, and the "
        "data of before take their place again.",
    )
    keep_models: int = Field(
        default=5,
        ge=0,
        description="Averages kept for each trainer in addition to the current one; pinned models do not count.",
    )
    keep_model_megabytes: int = Field(
        default=128, ge=1, description="Space for these averages, in megabytes; fewer are kept if they are larger."
    )
    keep_rounds: int = Field(default=100_000, ge=1, description="Rounds of each trainer kept in the history.")
    keep_events: int = Field(
        default=10_000, ge=0, description="Events kept in the event log, also after a restart."
    )
    notify_url: Annotated[str, AfterValidator(check_notify_url)] | None = Field(
        default=None,
        description="Address (http or https) to which this node POSTs notices as JSON, such as that of a round that ended "
        "badly (docs/watching.md).",
    )
    notify_secret: str | None = Field(
        default=None,
        min_length=16,
        max_length=1024,
        description="Secret with which these requests are signed, as standardwebhooks.com describes; if absent, "
        "they are not.",
    )
    notify_secret_file: Folder | None = Field(default=None, description="File that contains this secret.")
    notify_mail: Annotated[str, AfterValidator(check_notify_mail)] | None = Field(
        default=None,
        description="Mail server and recipients of notices, such as "
        "smtps://user:password@smtp.example.org?to=ana@example.org&from=node@example.org (docs/watching.md).",
    )
    notify_mail_file: Folder | None = Field(
        default=None, description="File that contains this address, which usually holds a password."
    )
    notify_lost_seconds: float = Field(
        default=600, ge=0, description="Seconds for which another node must be gone before a notice says so."
    )
    notify_accuracy_fall: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="A notice says when the accuracy here has fallen by so much below the best one since the last such "
        "notice; 0: never.",
    )
    notify_pause_seconds: float = Field(
        default=3600, ge=0, description="Seconds between two notices of one kind; others of that kind are counted."
    )
    watch_data: Folder | None = Field(
        default=None,
        description="Folder with one folder for each trainer, named by its id. Files that are put there are "
        "added to the data of the trainer and start a round, unless train_when says otherwise.",
    )
    train_when: str = Field(
        default="never",
        description="When rounds start automatically, such as "
        '"every 6h, new 100, drift 0.05, between 22:00-06:00, decline" (docs/automatic.md).',
    )
    seed: int = Field(default=0, ge=0, le=2**31, description="Seed of splits, initial parameters and shuffling.")
    logging_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Minimum level of the log messages."
    )

    _sources: Mapping[str, Source] = PrivateAttr(default_factory=dict)  # of those that somebody gave

    @model_validator(mode="after")
    def _rules_of_notices(self) -> Self:
        self._check_one_of_each("notify_secret", "notify_mail")
        if self.notify_url is None and (self.notify_secret or self.notify_secret_file):
            raise ValueError(f"{PREFIX}NOTIFY_SECRET signs requests to {PREFIX}NOTIFY_URL: set that, too")
        return self

    @model_validator(mode="after")
    def _rules_of_shared_compute(self) -> Self:
        if self.compute == "shared" and self.fork_server is None:
            raise ValueError(
                f"{PREFIX}COMPUTE=shared needs the process from which the nodes of a machine have their training process: "
                f"set {PREFIX}FORK_SERVER, as flnet demo does, or {PREFIX}COMPUTE=process"
            )
        return self

    @model_validator(mode="after")
    def _rules_of_common_rounds(self) -> Self:
        if self.rounds == "asynchronous" and (self.participation < 1 or self.max_staleness):
            raise ValueError(
                "FLNET_ROUNDS=asynchronous has no rounds for FLNET_PARTICIPATION and FLNET_MAX_STALENESS to rule: "
                "leave them away"
            )
        if self.rounds == "asynchronous" and (self.personal_model != "none" or "scaffold" in self.aggregation):
            raise ValueError(
                "FLNET_ROUNDS=asynchronous has no average that all nodes make, from which FLNET_PERSONAL_MODEL "
                "and scaffold go on: leave them away"
            )
        return self

    @model_validator(mode="after")
    def _rules_of_secure_sums(self) -> Self:
        if not self._is_summed:
            return self
        conflicts = {
            "FLNET_ROUNDS=asynchronous merges single versions of peers": self.rounds == "asynchronous",
            "FLNET_MAX_STALENESS lets single updates count in a later round": self.max_staleness > 0,
            "FLNET_LEAVE_ONE_OUT averages without each peer in turn": self.leave_one_out,
            "FLNET_MAX_UPDATE_NORM compares single updates": "max_update_norm" in self.model_fields_set
            and self.max_update_norm > 0,
            f"FLNET_WIRE={self.wire} rounds the numbers of single updates": self.wire in ("float16", "int8"),
        }
        found = [why for why, holds in conflicts.items() if holds]
        if found:
            raise ValueError(
                f"FLNET_AGGREGATION={self.aggregation} shows only the sum of the updates, but {' and '.join(found)}: "
                "leave one of the two away"
            )
        return self

    @model_validator(mode="after")
    def _rules_of_segments(self) -> Self:
        if not self.topology.startswith("segments"):
            return self
        conflicts = {
            "FLNET_ROUNDS=asynchronous merges whole versions of peers": self.rounds == "asynchronous",
            f"FLNET_AGGREGATION={self.aggregation} needs whole updates": not _is_allowed(
                self.topology, self.aggregation
            ),
            "FLNET_MAX_STALENESS lets updates count in a later round": self.max_staleness > 0,
            "FLNET_LEAVE_ONE_OUT averages without each peer in turn": self.leave_one_out,
        }
        found = [why for why, holds in conflicts.items() if holds]
        if found:
            raise ValueError(
                f"with FLNET_TOPOLOGY={self.topology} no node has a whole update of another, but {' and '.join(found)}: "
                "leave one of the two away"
            )
        return self

    @model_validator(mode="after")
    def _rules_of_neighbours(self) -> Self:
        if self.topology == "mesh" or self.topology.startswith("segments"):
            return self
        conflicts = {
            "FLNET_ROUNDS=asynchronous has no rounds to draw neighbours in": self.rounds == "asynchronous",
            f"FLNET_AGGREGATION={self.aggregation} has no weights for pairs of nodes (agg0, agg1 and agg2 have)": (
                not _is_allowed(self.topology, self.aggregation)
            ),
            "FLNET_PARTICIPATION lets nodes average updates without their own": self.participation < 1,
            "FLNET_MAX_STALENESS lets updates count in a later round": self.max_staleness > 0,
            "FLNET_LEAVE_ONE_OUT needs the updates of all nodes": self.leave_one_out,
            "FLNET_CLIP_NORM shortens updates towards a model that all nodes have": self.clip_norm > 0,
        }
        found = [why for why, holds in conflicts.items() if holds]
        if found:
            raise ValueError(
                f"with FLNET_TOPOLOGY={self.topology} each node averages with its neighbours alone, but "
                f"{' and '.join(found)}: leave one of the two away"
            )
        return self

    @model_validator(mode="after")
    def _rules_of_privacy(self) -> Self:
        if self.privacy == "none":
            return self
        given = f"FLNET_PRIVACY={self.privacy}"
        if self.rounds == "asynchronous":
            raise ValueError(
                f"{given} needs common rounds, which a node can sit out when its budget is spent: leave "
                "FLNET_ROUNDS=asynchronous away"
            )
        if "scaffold" in self.aggregation:
            raise ValueError(
                f"{given} protects the change of a model, but updates of scaffold hold control variates too: use another "
                "FLNET_AGGREGATION"
            )
        if self.privacy.startswith("node") and self._is_summed and "agg0" not in self.aggregation.split(","):
            raise ValueError(
                f"{given} hides a node in a sum in which all nodes weigh the same, but by FLNET_AGGREGATION="
                f"{self.aggregation} the sum holds numbers of examples, which get no noise: use secure,agg0"
            )
        if self.privacy.startswith("node") and self.clip_norm:
            raise ValueError(
                f"{given} shortens updates before their noise; FLNET_CLIP_NORM would shorten the noise too, on all nodes: "
                "leave it away"
            )
        return self

    @property
    def _is_summed(self) -> bool:
        """Whether updates are masked, so that only their sum can be opened."""
        return any(part.partition(":")[0] == "secure" for part in self.aggregation.split(","))

    @property
    def folder(self) -> Path:
        """The state folder of this node."""
        return self.state_path or Path.home() / ".flnet" / f"node-{self.node_port}"

    def source_of(self, name: str) -> Source:
        """The source of this setting's value."""
        return self._sources.get(name, "default")

    def can_change(self, name: str) -> bool:
        """Whether people may change this setting on the page: it is of the right kind, and nothing beats the page."""
        return name in CHANGEABLE and self.source_of(name) in ("default", "page")

    def with_changes(self, changes: Mapping[str, Any]) -> Settings:
        """These settings as they are at a start with these changes in place of what was changed on the page before.

        Args:
            changes: by name; what an option, a variable or the file sets beats them.

        Raises:
            SettingsError: as `load_settings`.
        """
        given = {name: source for name, source in self._sources.items() if source != "page"}
        settings = load_settings({}, {}, {name: getattr(self, name) for name in given}, changes)
        return settings.came_from({**settings._sources, **given})

    def came_from(self, sources: Mapping[str, Source]) -> Settings:
        """Remember the source of each given value, by name."""
        self._sources = sources
        return self


def load_settings(
    options: Mapping[str, Any],
    environ: Mapping[str, str],
    file: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Settings:
    """Merge options, variables, the file and the changes, in this order of precedence; remember where each value is from.

    Args:
        options: by field name; None stands for "not given".
        environ: the process's variables; those without the prefix are not looked at.
        file: the parsed flnet.toml, by field name.
        changes: what people changed on the page, by field name.

    Raises:
        SettingsError: unknown names, and values with the rule that they broke; all of them at once.
    """
    known = Settings.model_fields
    problems = []
    values: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    spelled: dict[str, str] = {}  # field -> how the person wrote it, for the error
    for name, value in (changes or {}).items():
        spelled[name], values[name], sources[name] = f"{name} (changed on the page)", value, "page"
        if name not in CHANGEABLE:
            problems.append(f"{name} cannot be changed on the page")
    for name, value in (file or {}).items():
        spelled[name], values[name], sources[name] = f"{name} in flnet.toml", value, "file"
        if name not in known:
            problems.append(f"{name} in flnet.toml is no setting{_nearest(name)}")
    for variable in sorted(v for v in environ if v.startswith(PREFIX)):
        name = variable[len(PREFIX) :].lower()
        if name not in known:
            problems.append(f"{variable} is no setting{_nearest(name, PREFIX)}")
        elif environ[variable] != "":
            spelled[name], values[name], sources[name] = variable, environ[variable], "variable"
    for name, value in options.items():
        if value is not None and value != ():
            spelled[name], values[name] = "--" + name.replace("_", "-"), value
            sources[name] = "option"
    values = {name: value for name, value in values.items() if name in known}
    problems += _joined(values, sources, spelled)
    try:
        settings = Settings.model_validate(values)
    except ValidationError as exc:
        problems += [_words(error, spelled) for error in exc.errors(include_url=False)]
    if problems:
        raise SettingsError("; ".join(problems))
    return settings.came_from(sources)


def _joined(values: dict[str, Any], sources: dict[str, Source], spelled: dict[str, str]) -> list[str]:
    """Put what a join link stands for into the values; what is wrong with it, or differs from what they say."""
    if "join" not in values:
        return []
    place = spelled["join"]
    try:
        stated = JoinLink.read(str(values["join"])).settings()
    except ValueError as exc:
        return [f"{place}={values['join']}: {exc}"]
    problems = []
    for name, value in stated.items():
        if name not in values:
            values[name], sources[name], spelled[name] = value, sources["join"], place
        elif name in ("bootstrap_pairs", "trusted_peers"):
            values[name] = [*split_list(values[name]), value]
        elif values[name] != value:
            problems.append(f"{place} says {name}={value}, but {spelled[name]} says {values[name]}")
    return problems


def _nearest(name: str, prefix: str = "") -> str:
    near = difflib.get_close_matches(name, Settings.model_fields, n=1)
    if not near:
        return ""
    return f"; did you mean {prefix}{near[0].upper() if prefix else near[0]}?"


def _words(error: Any, spelled: Mapping[str, str]) -> str:
    rule = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return str(rule)
    name = str(error["loc"][0])
    value = "***" if SECRET.search(name) else error["input"]
    return f"{spelled.get(name, PREFIX + name.upper())}={value!s}: {rule}"

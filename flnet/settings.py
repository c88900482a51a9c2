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
from flnet.names import check_host, check_name
from flnet.networks import Cidrs

NUMBER = re.compile(r"[0-9]{1,9}")
_PARTITION = re.compile(r"(iid|groups|(dirichlet|pathological|quantity|power):[0-9]{1,9}([.][0-9]{1,9})?)")

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


def check_aggregation(text: str) -> str:
    """Check an aggregation rule with its filters, and remove spaces.

    Raises:
        ValueError: there is no such rule or filter.
    """
    from flnet.algorithms.registry import check_rule  # noqa: PLC0415 - needs numpy, which most commands do not

    return check_rule(text)


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
    check_host(host.removeprefix("[").removesuffix("]"))
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
Mode = Literal["open", "keyed", "pinned"]  # how nodes know each other


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
    node_ip: Annotated[str, AfterValidator(check_host)] | None = Field(
        default=None,
        description="Address at which peers reach this node; if absent, the one its requests come from.",
    )
    node_port: int = Field(default=4000, ge=1, le=65535, description="TCP port of the REST API and the page.")
    listen_address: str = Field(
        default="127.0.0.1",
        description="Address to listen on. The default is this machine only; 0.0.0.0 takes in the network.",
    )
    bootstrap_pairs: Pairs = Field(
        default=(), description='Peers to announce to at the start, "ip:port,ip:port". They may start later.'
    )
    allowed_hosts: Hosts = Field(
        default=(),
        description="Further names under which callers may ask for this node, with commas between: those of your "
        "DNS. Addresses, localhost, node_ip, node_id and the machine's name are allowed anyway.",
    )
    operator_token: str | None = Field(
        default=None,
        min_length=16,
        max_length=512,
        pattern=r"^[A-Za-z0-9._~+/=-]+$",
        description="What persons on other machines sign in with; if absent, the node makes one and keeps it "
        "beside its state.",
    )
    operator_token_file: Folder | None = Field(
        default=None, description="File in which that token stands, instead of the token itself."
    )
    trust_loopback: bool = Field(
        default=True,
        description="Callers on this machine act without the token. Set it to false behind a reverse proxy on "
        "this machine, and where other people have accounts.",
    )
    mesh_key: str | None = Field(
        default=None,
        description="A secret that all nodes of the mesh share, of 16 characters or more. With it, nodes sign "
        "what they say to each other, and refuse what is not signed.",
    )
    mesh_key_file: Folder | None = Field(default=None, description="File in which that key stands.")
    mesh_mode: Mode | None = Field(
        default=None,
        description="How nodes know each other: open (whoever asks takes part), keyed (who knows the key) or "
        "pinned (TLS; whom a person accepted by its fingerprint). Without it, it follows from the key; what does "
        "not fit together stops the start.",
    )
    trusted_peers: Marks = Field(
        default=(),
        description="In a pinned mesh: fingerprints of nodes that are accepted, with commas between.",
    )
    introducers: Marks = Field(
        default=(),
        description="In a pinned mesh: fingerprints of nodes that are accepted, and with them those whom people "
        "accepted there.",
    )

    @property
    def mode(self) -> Mode:
        """How nodes know each other."""
        if self.mesh_mode == "pinned":
            return "pinned"
        return "open" if self.mesh_key is None and self.mesh_key_file is None else "keyed"

    @model_validator(mode="after")
    def _one_secret_of_each(self) -> Self:
        for name in ("operator_token", "mesh_key"):
            if getattr(self, name) is not None and getattr(self, f"{name}_file") is not None:
                raise ValueError(f"give {PREFIX}{name.upper()} or {PREFIX}{name.upper()}_FILE, not both")
        return self

    @model_validator(mode="after")
    def _one_mode(self) -> Self:
        if self.mesh_mode == "keyed" and self.mode == "open":
            raise ValueError(f"{PREFIX}MESH_MODE=keyed needs a {PREFIX}MESH_KEY or {PREFIX}MESH_KEY_FILE")
        if self.mesh_mode == "open" and self.mode == "keyed":
            raise ValueError(f"{PREFIX}MESH_MODE=open has no use for a key: leave one of the two away")
        if self.mode == "pinned" and (self.mesh_key is not None or self.mesh_key_file is not None):
            raise ValueError(f"{PREFIX}MESH_MODE=pinned has no use for a mesh key: leave one of the two away")
        if self.mode != "pinned" and (self.trusted_peers or self.introducers):
            raise ValueError(f"{PREFIX}TRUSTED_PEERS and {PREFIX}INTRODUCERS need {PREFIX}MESH_MODE=pinned")
        return self

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.listen_address in LOOPBACK:
            for pair in self.bootstrap_pairs:
                host = pair.rpartition(":")[0].strip("[]")
                if host not in LOOPBACK and not host.startswith("127."):
                    raise ValueError(
                        f"bootstrap_pairs names {pair!r} on another machine, but this node listens on "
                        f"{self.listen_address} only and could not be reached from there: "
                        f"set {PREFIX}LISTEN_ADDRESS=0.0.0.0 too"
                    )
        return self


SECRET = re.compile("key|token|secret|password")  # names of settings whose values are shown to nobody
Source = Literal["default", "file", "variable", "option"]  # of a value


class Settings(PlaceSettings):
    """All settings of one node, frozen."""

    datasets_path: Folder | None = Field(default=None, description="Folder in which trainers look for data sets.")
    data_shard: Shard = Field(
        default=Shard(index=1, count=1),
        description='For experiments on one data set: this node takes part i of n, "i/n".',
    )
    data_partition: Annotated[str, AfterValidator(check_partition)] = Field(
        default="iid",
        description="How the parts of data_shard differ: iid (alike), dirichlet:0.3 (labels in drawn shares), "
        "pathological:2 (labels per part), quantity:0.5 or power:1 (sizes), groups (kept whole). The same on all "
        "nodes.",
    )
    labels: Folder | None = Field(
        default=None,
        description="File in TOML that says how the rows of this node are labelled, where nodes label differently "
        "(docs/labels.md); if absent, all label alike.",
    )
    state_path: Folder | None = Field(
        default=None, description="Folder for what must survive a restart; ~/.flnet/node-<port> if absent."
    )
    tmp_path: Folder | None = Field(
        default=None, description="Folder for temporary files; the system's if absent."
    )
    trainers: Names = Field(default=(), description="Trainers to offer, by id, with commas between; all if empty.")
    trainers_path: Folder | None = Field(
        default=None, description="Folder with further trainers, one file or folder each."
    )
    aggregation: Annotated[str, AfterValidator(check_aggregation)] = Field(
        default="agg1",
        description="How updates become one model: a mean (agg0 uniform, agg1 by examples, agg2 by examples x "
        "labels), with steps of an optimiser (fedavgm:1:0.9, fedadam:0.01, fedyogi:0.01), with control variates "
        "(scaffold), or a rule that bears hostile updates: median, trimmed-mean:0.2 (part left out at each end), "
        "winsorised-mean:0.2 (part moved to the next), geometric-median, krum:1, multi-krum:1, bulyan:1 (how many "
        "may be hostile), consistency (weights by how well each update was predicted from earlier ones), or "
        "consistency:bounded (over numbers held to the range of the others). Before it, with commas between: clip "
        "(updates shortened to the median norm, or clip:2.5 to a norm), cosine (those that point away from the "
        "median left out). The same on all nodes.",
    )
    local_training: Annotated[str, AfterValidator(check_local_training)] = Field(
        default="plain",
        description="plain: as the trainer does it. proximal:0.01: held near the model that the round began with, "
        "the larger the number the nearer (FedProx); for nodes that differ. The same on all nodes.",
    )
    personal_model: Annotated[str, AfterValidator(check_personal_model)] = Field(
        default="none",
        description="A model of this node's own beside the common one. increment: what is learnt after each "
        "average is added to it (increment:5: in so many epochs). apfl:0.5:0.01: a second model, mixed with it; "
        "the share that it begins with, and how fast that learns. Other nodes need not know.",
    )
    model_choice: Literal["by-input", "local", "global"] = Field(
        default="by-input",
        description="Which of the two answers predictions: by-input (increment: the local one for what resembles "
        "the own data), local or global.",
    )
    rounds: Literal["common", "asynchronous"] = Field(
        default="common",
        description="common: all nodes train in the same rounds. asynchronous: there are none; each node trains "
        "and merges the others' newest models when it has something. The same on all nodes.",
    )
    participation: float = Field(
        default=1,
        gt=0,
        le=1,
        description="Part of the nodes that train in a round; all of them average. The same on all nodes.",
    )
    min_participants: int = Field(
        default=2,
        ge=1,
        le=257,
        description="Nodes that train at least, whatever part that is. The same on all nodes.",
    )
    max_update_norm: float = Field(
        default=100,
        ge=0,
        allow_inf_nan=False,
        description="How many times as far as the median of its round an update may move from where the round "
        "began (L2 norm), from three updates on; what moved farther is refused. 0: however far. The same on all "
        "nodes.",
    )
    clip_norm: float = Field(
        default=0,
        ge=0,
        allow_inf_nan=False,
        description="L2 norm to which updates are shortened, the own one before it is sent. 0: they are not. The "
        "same on all nodes.",
    )
    max_staleness: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="By how many rounds an update may be late and still counts, for less. Nobody then waits for "
        "nodes that are much slower. 0: late updates do not count. The same on all nodes.",
    )
    wire: Literal["safetensors", "float16", "int8", "json"] = Field(
        default="safetensors",
        description="How updates are sent to peers that can read it: as they are, in half or in a quarter of the "
        "bytes (what rounding loses is sent with the next update), or as the thesis' JSON only.",
    )
    wait_time_in_seconds_to_force_fedavg: float = Field(
        default=60,
        gt=0,
        description="Seconds after the own training until the average is forced without the missing peers.",
    )
    wait_time_in_seconds_to_force_fedavg_margin: float = Field(
        default=5,
        ge=0,
        description="Random part added to that wait, in seconds, so that nodes do not act at once.",
    )
    leave_one_out: bool = Field(
        default=False,
        description="After the last round of a series, measure what the accuracy here would have been without "
        "each peer, for persons of this node alone. "
        "It takes as many averages and measurements as there are peers.",
    )
    request_timeout_in_seconds: float = Field(
        default=30, gt=0, description="Seconds that a request to a peer may take, all attempts together."
    )
    prune_unresponsive_nodes: bool = Field(
        default=False,
        description="Forget a peer that does not answer, instead of trying it again from time to time.",
    )
    compute: Literal["process", "thread"] = Field(
        default="process",
        description="Train in a child process of low priority, or in a thread (little memory, debugging).",
    )
    compute_threads: int = Field(
        default=1,
        ge=0,
        le=256,
        description="CPU threads that a framework may use to train; 0: one for each processor that the node may "
        "use, which flnet demo divides among its nodes. More than 1 pay off on a machine that does nothing else.",
    )
    local_epochs: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Epochs that this node trains, whatever e a round is started with.",
    )
    local_batch_size: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Examples per batch on this node, whatever b a round is started with.",
    )
    max_training_seconds: float | None = Field(
        default=None,
        gt=0,
        description="Seconds after which a local training ends with the batch that it is in. What was learnt so "
        "far counts, weighted by the examples that were seen. For slow nodes.",
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        default="auto",
        description="Where frameworks train: the processor, an NVIDIA or Apple GPU; auto takes a GPU if there is "
        "one.",
    )
    worker_idle_seconds: float = Field(
        default=60,
        gt=0,
        description="Seconds without work after which the training child is ended to free its memory.",
    )
    fork_server: Folder | None = Field(
        default=None,
        description="Socket of a process that forks the training children of all nodes of this machine, so that "
        "a framework is imported once; flnet demo sets it.",
    )
    max_body_megabytes: int = Field(
        default=512,
        ge=1,
        description="Upper bound for one request body; the real limit follows the size of the models.",
    )
    allowed_networks: Cidrs = Field(
        default=(),
        description="Networks in which peers that others name may lie, such as 10.1.0.0/16, with commas between. "
        "If empty: this machine only where the node listens on loopback, else private networks and those of the "
        "own interfaces. Peers in bootstrap_pairs are called wherever they are.",
    )
    max_import_gigabytes: float = Field(
        default=8, gt=0, le=100_000, description="Upper bound for data that a person brings, also when unpacked."
    )
    keep_models: int = Field(
        default=5,
        ge=0,
        description="Averages of each trainer kept besides the one held; pinned ones do not count.",
    )
    keep_model_megabytes: int = Field(
        default=128, ge=1, description="Room for them; of larger ones fewer are kept."
    )
    keep_rounds: int = Field(default=100_000, ge=1, description="Rounds of each trainer kept in the history.")
    keep_events: int = Field(default=10_000, ge=0, description="Things that happened, kept over restarts.")
    watch_data: Folder | None = Field(
        default=None,
        description="Folder with a folder for each trainer, named by its id; files that are dropped there are "
        "added to its data, and start a round where train_when says nothing else.",
    )
    train_when: str = Field(
        default="never",
        description="When rounds start by themselves, such as "
        '"every 6h, new 100, drift 0.05, between 22:00-06:00, decline" (docs/automatic.md).',
    )
    seed: int = Field(default=0, ge=0, le=2**31, description="Seed of splits, initial parameters and shuffling.")
    logging_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="What is logged."
    )

    _sources: Mapping[str, Source] = PrivateAttr(default_factory=dict)  # of those that somebody gave

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

    @property
    def folder(self) -> Path:
        """The state folder of this node."""
        return self.state_path or Path.home() / ".flnet" / f"node-{self.node_port}"

    def source_of(self, name: str) -> Source:
        """The source of this setting's value."""
        return self._sources.get(name, "default")

    def came_from(self, sources: Mapping[str, Source]) -> Settings:
        """Remember the source of each given value, by name."""
        self._sources = sources
        return self


def load_settings(
    options: Mapping[str, Any], environ: Mapping[str, str], file: Mapping[str, Any] | None = None
) -> Settings:
    """Merge options, variables and the file, in this order of precedence, and remember the source of each value.

    Args:
        options: by field name; None stands for "not given".
        environ: the process's variables; those without the prefix are not looked at.
        file: the parsed flnet.toml, by field name.

    Raises:
        SettingsError: unknown names, and values with the rule that they broke; all of them at once.
    """
    known = Settings.model_fields
    problems = []
    values: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    spelled: dict[str, str] = {}  # field -> how the person wrote it, for the error
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
    try:
        settings = Settings.model_validate(values)
    except ValidationError as exc:
        problems += [_words(error, spelled) for error in exc.errors(include_url=False)]
    if problems:
        raise SettingsError("; ".join(problems))
    return settings.came_from(sources)


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

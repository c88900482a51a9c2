"""The one place that knows the settings: name, unit, default, rule, and why.

Every setting is an environment variable FLNET_<NAME>, an option --<name> and a line of flnet.toml; an
option beats a variable, a variable beats the file, the file beats the default.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from flnet.errors import SettingsError
from flnet.names import check_host, check_name
from flnet.networks import Cidrs
from flnet.setting_types import Folder, Hosts, Names, Pairs, Shard, check_partition

PREFIX = "FLNET_"
SECRET = re.compile("key|token|secret|password")  # names of settings whose values are shown to nobody
Source = Literal["default", "file", "variable", "option"]  # of a value
LOOPBACK = ("127.0.0.1", "::1", "localhost")
Mode = Literal["open", "keyed"]  # how nodes know each other


class Settings(BaseModel):
    """All settings of one node, frozen."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

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
        description="How nodes know each other: open (whoever asks takes part) or keyed (who knows the key). "
        "It follows from the key; what does not fit together stops the start.",
    )
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
    aggregation: Literal["agg0", "agg1", "agg2"] = Field(
        default="agg1",
        description="Weights of the average: agg0 uniform, agg1 by examples, agg2 by examples x labels.",
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
    seed: int = Field(default=0, ge=0, le=2**31, description="Seed of splits, initial parameters and shuffling.")
    logging_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="What is logged."
    )

    _sources: Mapping[str, Source] = PrivateAttr(default_factory=dict)  # of those that somebody gave

    def source_of(self, name: str) -> Source:
        """From where `load_settings` has the value of this setting."""
        return self._sources.get(name, "default")

    @property
    def mode(self) -> Mode:
        """How nodes know each other."""
        return "open" if self.mesh_key is None and self.mesh_key_file is None else "keyed"

    @model_validator(mode="after")
    def _one_secret_of_each(self) -> Settings:
        for name in ("operator_token", "mesh_key"):
            if getattr(self, name) is not None and getattr(self, f"{name}_file") is not None:
                raise ValueError(f"give {PREFIX}{name.upper()} or {PREFIX}{name.upper()}_FILE, not both")
        return self

    @model_validator(mode="after")
    def _one_mode(self) -> Settings:
        if self.mesh_mode == "keyed" and self.mode == "open":
            raise ValueError(f"{PREFIX}MESH_MODE=keyed needs a {PREFIX}MESH_KEY or {PREFIX}MESH_KEY_FILE")
        if self.mesh_mode == "open" and self.mode == "keyed":
            raise ValueError(f"{PREFIX}MESH_MODE=open has no use for a key: leave one of the two away")
        return self

    @model_validator(mode="after")
    def _reachable(self) -> Settings:
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


def load_settings(
    options: Mapping[str, Any], environ: Mapping[str, str], file: Mapping[str, Any] | None = None
) -> Settings:
    """Merge the sources, and remember them; an option beats a variable beats the file.

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
    settings._sources = sources
    return settings


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
    said = "***" if SECRET.search(name) else error["input"]
    return f"{spelled.get(name, PREFIX + name.upper())}={said!s}: {rule}"

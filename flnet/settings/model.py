"""All settings of one node: name, unit, default, rule, and why.

Every setting is an environment variable FLNET_<NAME>, an option --<name> and a line of flnet.toml; an
option beats a variable, a variable beats the file, the file beats the default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from flnet.networks import Cidrs
from flnet.setting_types import (
    Folder,
    Names,
    Shard,
    check_local_training,
    check_merging_rule,
    check_partition,
    check_personal_model,
)
from flnet.settings.place import PlaceSettings

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
    aggregation: Annotated[str, AfterValidator(check_merging_rule)] = Field(
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
        """Where this node keeps what must survive a restart."""
        return self.state_path or Path.home() / ".flnet" / f"node-{self.node_port}"

    def source_of(self, name: str) -> Source:
        """From where `load_settings` has the value of this setting."""
        return self._sources.get(name, "default")

    def came_from(self, sources: Mapping[str, Source]) -> Settings:
        """Remember from where each value came that somebody gave, by name."""
        self._sources = sources
        return self

"""Settings of a node's place in the mesh: its name, where it listens, whom it meets, and who may act on it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from flnet.fingerprints import check_key, fingerprint, read_fingerprint
from flnet.names import check_host, check_name
from flnet.setting_types import Folder, Hosts, Pairs, split_list

PREFIX = "FLNET_"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
Mode = Literal["open", "keyed", "pinned"]  # how nodes know each other


def check_mark(text: str) -> str:
    """The whole fingerprint of a node, from how it was typed, or from its public key in base64.

    Raises:
        ValueError: it is neither; says which group has a typing error.
    """
    try:
        return fingerprint(check_key(text.strip()))
    except ValueError:
        return read_fingerprint(text)


Marks = Annotated[tuple[Annotated[str, AfterValidator(check_mark)], ...], BeforeValidator(split_list)]


class PlaceSettings(BaseModel):
    """The first part of `Settings`."""

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

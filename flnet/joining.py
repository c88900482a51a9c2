"""Join links: what a new node needs to know of a mesh, in one line that a person copies or scans.

flnet://192.168.1.11:4000/?mesh=ward&mode=pinned&fingerprint=... A link has no secret in it. In a keyed mesh the key is
handed over by another way; in a pinned mesh the fingerprint is that of the node that invites, where a person accepts the
new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

SCHEME = "flnet"
MODES = ("open", "keyed", "pinned")
MOST_CHARACTERS = 1000
_PARTS = ("mesh", "mode", "fingerprint")


@dataclass(frozen=True)
class JoinLink:
    """Where a mesh can be joined, and how.

    Attributes:
        address: "host:port" of a node of the mesh.
        mesh: name of the mesh.
        mode: which nodes may take part.
        fingerprint: of that node's key, in a pinned mesh; "" in others.
    """

    address: str
    mesh: str
    mode: str
    fingerprint: str = ""

    @classmethod
    def read(cls, written: str) -> JoinLink:
        """Read a link as `str` writes it.

        Raises:
            ValueError: it is none, or lacks something.
        """
        url = urlsplit(written.strip()[:MOST_CHARACTERS])
        stated = parse_qsl(url.query, keep_blank_values=True)
        parts = dict(stated)
        is_whole = url.scheme == SCHEME and url.netloc and url.path in ("", "/") and not url.fragment
        if not is_whole or len(parts) < len(stated) or not {"mesh", "mode"} <= parts.keys() <= {*_PARTS}:
            raise ValueError("expected a join link, such as flnet://192.168.1.11:4000/?mesh=flnet&mode=open")
        if parts["mode"] not in MODES:
            raise ValueError(f"expected a join link with the mode {', '.join(MODES)}, got {parts['mode'][:20]!r}")
        if (parts["mode"] == "pinned") != bool(parts.get("fingerprint")):
            raise ValueError("a join link has a fingerprint if its mode is pinned, and only then")
        return cls(url.netloc, **parts)

    def __str__(self) -> str:
        parts = {name: value for name in _PARTS if (value := getattr(self, name))}
        return f"{SCHEME}://{self.address}/?{urlencode(parts)}"

    def settings(self) -> Mapping[str, str]:
        """The settings of a node that joins, by field name; each of them is checked as if a person had written it."""
        stated = {"bootstrap_pairs": self.address, "mesh_name": self.mesh, "mesh_mode": self.mode}
        return {**stated, "trusted_peers": self.fingerprint} if self.fingerprint else stated

"""A twin node of a pinned mesh for the tests of who is trusted: strangers call, and people decide."""

from __future__ import annotations

from flnet.fingerprints import fingerprint, key_text, words
from flnet.node.interface import View
from flnet.node.trust import Trust
from tests.web.fake_node import FakeNode

OWN, STRANGER, FRIEND, THIRD = (key_text(bytes([number]) * 32) for number in range(4))
EVIL = "<img src=x onerror=alert(1)>"


class PinnedNode(FakeNode):
    """A node that trusts nobody yet; what it tells of keys is in its feed."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, str]] = []
        self.trust: Trust = Trust(OWN, publish=self._tell, now=lambda: 1_700_000_000.0)

    def info(self) -> View:
        return {**super().info(), "key": OWN}

    def meet(self, key: str, name: str, state: str = "alive") -> None:
        """A member with this key."""
        self.add_peer(name, f"192.0.2.{len(self.known) + 1}:4000", state)
        self.known[-1] = {**self.known[-1], "key": key}

    def _tell(self, kind: str, text: str, trainer: str = "", data: View | None = None) -> None:
        self.told.append((kind, text))


def spoken(key: str) -> str:
    """The words as they stand on a page."""
    return words(key).replace("-", " ")


def marks(*keys: str) -> list[str]:
    """Whole fingerprints."""
    return [fingerprint(key) for key in keys]

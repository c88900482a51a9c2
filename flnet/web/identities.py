"""By what people know a node: its public key and the fingerprint of it, in the forms that the pages show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from flnet.fingerprints import SHORT_GROUPS, check_key, fingerprint, words

KEYS = "/view/keys"
GONE = ("dead", "left")  # states of peers that can be forgotten
GROUPS_PER_LINE = 5  # of a fingerprint; thirteen groups are three lines


@dataclass(frozen=True)
class Identity:
    """A key as people compare it.

    Attributes:
        key: the base64 of the public key; empty where only the fingerprint is known.
        fingerprint: all of it, thirteen groups.
        short: its first two groups.
        words: its first 60 bits as six words.
        lines: the groups of the fingerprint, as they stand under each other.
    """

    key: str
    fingerprint: str
    short: str
    words: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def spoken(self) -> str:
        """The words as the command line shows them."""
        return "-".join(self.words)


@lru_cache(1024)  # the same few keys stand in every view
def identity_of(key: str) -> Identity | None:
    """The identity that a public key stands for; None for what is no key, such as that of a node without one."""
    try:
        check_key(key)
    except ValueError:
        return None
    return _identity(key, fingerprint(key), words(key))


def identity_in(view: Mapping[str, Any]) -> Identity:
    """The identity in a view of `flnet.node.trust.Trust`, also of a key that was only read out so far."""
    return _identity(view["key"], view["fingerprint"], view["words"])


def _identity(key: str, whole: str, spoken: str) -> Identity:
    groups = whole.split("-")
    lines = ("-".join(groups[at : at + GROUPS_PER_LINE]) for at in range(0, len(groups), GROUPS_PER_LINE))
    said = tuple(spoken.split("-")) if spoken else ()
    return Identity(key, whole, "-".join(groups[:SHORT_GROUPS]), said, tuple(lines))


def forget_url(peer: str, state: str, disputed: bool = False) -> str:
    """The address that asks whether to forget a peer; empty while it takes part and nobody claims its name."""
    return f"{KEYS}?forget={quote(peer, safe='')}#forget" if state in GONE or disputed else ""


def distrust_url(mark: str) -> str:
    """The address that asks whether to trust the key of this fingerprint no longer."""
    return f"{KEYS}?distrust={mark}#distrust"


def accept_url(mark: str) -> str:
    """The address of the form that accepts the key of this fingerprint."""
    return f"{KEYS}?accept={mark}#accept"

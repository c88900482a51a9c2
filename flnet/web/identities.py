"""By what people know a node: its public key and the fingerprint of it, in the forms that the pages show."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

from flnet.fingerprints import check_key, fingerprint, short, words

KEYS = "/view/keys"
GONE = ("dead", "left")  # states of peers that can be forgotten
GROUPS_PER_LINE = 5  # of a fingerprint; thirteen groups are three lines


@dataclass(frozen=True)
class Identity:
    """A key as people compare it.

    Attributes:
        key: the base64 of the public key.
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
    whole = fingerprint(key)
    groups = whole.split("-")
    lines = (groups[at : at + GROUPS_PER_LINE] for at in range(0, len(groups), GROUPS_PER_LINE))
    return Identity(key, whole, short(key), tuple(words(key).split("-")), tuple("-".join(line) for line in lines))


def forget_url(peer: str, state: str) -> str:
    """The address that asks whether to forget a peer; empty while it takes part."""
    return f"{KEYS}?forget={quote(peer, safe='')}#forget" if state in GONE else ""

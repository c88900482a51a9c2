"""What a node of a pinned mesh needs: whom it trusts, what signs, and TLS, to call others and to be called."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from flnet.node.keyed import Signing, made_of
from flnet.node.trust import Trust
from flnet.settings import Settings
from flnet.store import Store
from flnet.transport.session import Channel

Publish = Callable[..., object]


class Pinned(NamedTuple):
    """The parts of it."""

    trust: Trust
    signing: Signing
    channel: Channel


def pinned_of(settings: Settings, folder: Path, own: str, store: Store, publish: Publish) -> Pinned | None:
    """What a node of a pinned mesh needs; None where the settings want another mesh.

    Args:
        folder: where the node's own key is.
        own: its public key.
        publish: tells people: kind, sentence, trainer, data.

    Raises:
        StartError: the key cannot be read.
    """
    if settings.mode != "pinned":
        return None
    from flnet.keys.signer import load_signer  # noqa: PLC0415 - it takes nine megabytes, which others save
    from flnet.keys.tls import Channel as OwnChannel  # noqa: PLC0415

    trust = Trust(own, store, publish, peers=settings.trusted_peers, introducers=settings.introducers)
    return Pinned(trust, made_of(load_signer(folder), None, trust.trusts), OwnChannel(trust.trusts))


def tls_of(settings: Settings, folder: Path, publish: Publish) -> ssl.SSLContext | None:
    """TLS of the node's port; None where the settings want no pinned mesh.

    Raises:
        StartError: the certificates cannot be made or read.
    """
    if settings.mode != "pinned":
        return None
    from flnet.keys.tls import server_context  # noqa: PLC0415

    told: list[bool] = []

    def tell() -> None:
        if not told:
            told.append(True)
            publish("refused_here", "somebody asked without TLS (http://), and this node answers with TLS only")

    return server_context(folder, tell)

"""Members of a mesh in memory that state parameters of theirs, and serve them to whoever believes it."""

from __future__ import annotations

import json
from collections import Counter

from flnet.params.params import Params
from flnet.protocol.messages import Peer
from flnet.wire.binary_codec import BINARY_TYPE, BinaryCodec
from flnet.wire.transport import Reply
from tests.node.mesh import PARAMS, Mesh

JSON, HERE = "application/json", "127.0.0.1"


class Serving:
    """Members at addresses of their own.

    Attributes:
        asked: how often each caller has fetched the parameters.
    """

    def __init__(self, mesh: Mesh, names: str, params: Params) -> None:
        self.mesh, self.params, self.asked = mesh, params, Counter[str]()
        self.peers = [Peer(id=name, ip=HERE, port=4770 + at) for at, name in enumerate(names)]
        for peer in self.peers:
            mesh.network.register(peer.address, self.answer)

    async def answer(self, path: str, body: bytes, content_type: str, caller: str) -> Reply:
        if path != f"{PARAMS}{self.params.digest}":
            return Reply(200, b"{}", JSON)
        self.asked[caller] += 1
        return Reply(200, bytes(BinaryCodec().encode_params(self.params)), BINARY_TYPE)

    async def announce(self) -> None:
        nodes = list(self.mesh.nodes.values())
        for peer in self.peers:
            said = {"iAm": peer.fields(), "myKnownPeers": [node.me.fields() for node in nodes]}
            for node in nodes:
                await node.receive("/announce", json.dumps(said).encode(), JSON, HERE)

"""The example of docs/keyed-meshes.md is what a node sends."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

from flnet.signing.base import signature_base
from flnet.signing.requests import Asked, read_signed
from tests.signing.keypairs import MESH, TestKey, admitted, gate, learnt, seal, sent

TEXT = (Path(__file__).parents[2] / "docs" / "keyed-meshes.md").read_text()


def block(kind: str, holds: str) -> str:
    found: list[str] = re.findall(rf"```{kind}\n(.*?)\n```", TEXT, re.DOTALL)
    return next(text for text in found if holds in text)


def headers_and_body() -> tuple[dict[str, str], bytes]:
    head, _, body = block("http", "POST /announce").partition("\n\n")
    lines = dict(line.split(": ", 1) for line in head.splitlines()[1:])
    assert lines.pop("Content-Type") == "application/json"
    return lines, body.encode()


def test_a_node_sends_these_headers() -> None:
    headers, body = headers_and_body()

    assert sent(learnt(seal(), gate()), body).headers == headers


def test_a_node_of_that_mesh_lets_it_in() -> None:
    headers, body = headers_and_body()
    caller = admitted(gate(), headers)

    assert caller.key == TestKey(1).text
    caller.sent(sha256(body).digest())


def test_these_are_the_bytes_that_are_signed() -> None:
    headers, _ = headers_and_body()
    signed = read_signed(headers["Signature-Input"], headers["Signature"], with_mesh=True)
    asked = Asked(
        "POST", "/announce", "?", headers["Content-Digest"], headers["Flnet-Receiver"], "application/json"
    )

    base = signature_base(asked.values(), signed.covered)

    assert base.decode() == block("text", '"@signature-params"')
    assert MESH.sign(base) == signed.mesh

"""A node of a mesh with a name of its own takes no answer of another mesh, and tells it nothing."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from flnet.errors import OtherMeshThere
from flnet.wire.http import HttpTransport
from flnet.wire.transport import mesh_of
from tests.wire.servers import OK, Server, listening

OF_LAB = OK.replace(b"\r\n", b"\r\nFlnet-Mesh: lab\r\n", 1)


@pytest_asyncio.fixture
async def http() -> AsyncIterator[HttpTransport]:
    made = HttpTransport(60, random.Random(0), mesh="lab")
    yield made
    await made.close()


async def test_a_node_that_knows_no_meshes_does_not_hear_of_this_one(http: HttpTransport) -> None:
    async with listening(Server(OK)) as server:
        with pytest.raises(OtherMeshThere, match="belongs to the mesh flnet, and this one to lab"):
            await http.send(server.address, "/announce", b"{}", "application/json")
        assert [head.split(b" HTTP")[0] for head, _ in server.requests] == [b"GET /health"]


async def test_a_node_of_the_same_mesh_is_asked_for_its_mesh_once(http: HttpTransport) -> None:
    async with listening(Server(OF_LAB)) as server:
        for _ in range(2):
            assert (await http.send(server.address, "/probe", b"{}", "application/json")).status == 200
        heads = [head for head, _ in server.requests]
    assert [head.split(b" HTTP")[0] for head in heads] == [b"GET /health", b"POST /probe", b"POST /probe"]
    assert all(b"flnet-mesh: lab" in head.lower() for head in heads)


async def test_a_node_without_a_name_takes_no_answer_of_a_named_mesh() -> None:
    here = HttpTransport(60, random.Random(0))
    async with listening(Server(OF_LAB)) as server:
        with pytest.raises(OtherMeshThere, match="belongs to the mesh lab, and this one to flnet"):
            await here.send(server.address, "/announce", b"{}", "application/json")
        assert b"flnet-mesh" not in server.requests[0][0].lower()
    await here.close()


async def test_a_refusal_that_states_no_mesh_is_what_it_says(http: HttpTransport) -> None:
    async with listening(Server(b"HTTP/1.1 403 X\r\nContent-Length: 2\r\n\r\n{}")) as server:
        assert (await http.send(server.address, "/announce", b"{}", "application/json")).status == 403


def test_no_name_means_the_default_and_what_is_no_name_is_shown_as_such() -> None:
    assert [mesh_of(stated) for stated in (None, "lab", "", "a b", "é")] == ["flnet", "lab", "?", "?", "?"]

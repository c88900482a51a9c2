"""Threat 6: bodies that are too large, announced so or without end. They are refused, and memory stays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flnet.wire.binary_codec import BINARY_TYPE
from tests.processes.harness import RealNode
from tests.threats.stranger import JSON, MEGA, POSTS, head, peak, talk, target

pytestmark = pytest.mark.slow
TEN_GIGABYTES = 10 * 1024 * MEGA


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    with target(tmp_path_factory.mktemp("oversized")) as made:
        yield made


@pytest.fixture(autouse=True)
def _lean(node: RealNode) -> Iterator[None]:
    """After each test the node's highest memory is about what it was before."""
    before = peak(node)
    yield
    assert peak(node) - before < 32 * MEGA
    assert node.get("/health")


@pytest.mark.parametrize("path", POSTS)
def test_ten_gigabytes_announced_are_refused_unread(node: RealNode, path: str) -> None:
    status, told = talk(node, [head(path, Content_Length=TEN_GIGABYTES), b"{"])
    assert (status, told["error"]) == (413, "body_too_large")
    assert str(TEN_GIGABYTES) in told["message"]


def test_ten_gigabytes_of_arrays_announced_are_refused_unread(node: RealNode) -> None:
    opening = head("/training/model_params", BINARY_TYPE, Content_Length=TEN_GIGABYTES)
    status, told = talk(node, [opening, b"\x10"])
    assert (status, told["error"]) == (413, "body_too_large")


def endless() -> Iterator[bytes]:
    """A chunked body of 64 MB, twice what the node may grow by, which would go on."""
    for _ in range(64):
        yield b"100000\r\n" + b"[" * MEGA + b"\r\n"


@pytest.mark.parametrize("path", POSTS)
def test_a_chunked_body_without_end_is_cut(node: RealNode, path: str) -> None:
    def parts() -> Iterator[bytes]:
        yield head(path, JSON, Transfer_Encoding="chunked")
        yield from endless()

    status, told = talk(node, parts())
    assert (status, told["error"]) == (413, "body_too_large")


def test_arrays_in_chunks_are_refused_because_their_size_is_not_stated(node: RealNode) -> None:
    opening = head("/training/model_params", BINARY_TYPE, Transfer_Encoding="chunked")
    status, told = talk(node, [opening, b"1\r\n\x10\r\n"])
    assert (status, told["error"]) == (411, "length_required")

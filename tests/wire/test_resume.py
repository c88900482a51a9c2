"""Going on where a download broke off: what is asked for, and which answers are the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.errors import BodyTooLarge, FlnetError, TransportError, UnreadableBody
from flnet.params.blob import Landing
from flnet.wire.resume import Resumption

TAG = '"abc"'


def landing(limit: int = 1000) -> Landing:
    return Landing(lambda head, total: True, limit, 100)


def begun(etag: str = TAG) -> tuple[Resumption, Landing]:
    """Four of ten bytes have come."""
    into = landing()
    rest = Resumption(into)
    rest.accept(200, {"Content-Length": "10", "ETag": etag})
    into.write(b"0123")
    return rest, into


def test_first_all_of_it_is_asked_for() -> None:
    into = landing()
    rest = Resumption(into)
    assert rest.headers() == {}
    rest.accept(200, {"Content-Length": "10"})
    assert into.total == 10
    assert rest.headers() == {}


def test_then_the_rest_of_the_same_version() -> None:
    rest, _ = begun()
    assert rest.headers() == {"Range": "bytes=4-", "If-Range": TAG}
    rest.accept(206, {"Content-Range": "bytes 4-9/10", "ETag": TAG})
    rest.accept(206, {"Content-Range": "bytes 4-9/10"})


@pytest.mark.parametrize("etag", ["", 'W/"abc"', "abc", '"' + "x" * 300 + '"', '"a"b"'])
def test_a_tag_that_promises_nothing_is_not_sent_back(etag: str) -> None:
    rest, _ = begun(etag)
    assert rest.headers() == {"Range": "bytes=4-"}


def test_a_landing_that_others_began_is_gone_on_with() -> None:
    _, into = begun()
    assert Resumption(into).headers() == {"Range": "bytes=4-"}


@pytest.mark.parametrize(
    "stated",
    ["", "bytes 4-9/*", "bytes 3-9/10", "bytes 5-9/10", "bytes 4-8/10", "bytes 4-10/10", "bytes */10",
     "bytes 4-9/10, 4-9/10", "items 4-9/10", "bytes 9-4/10", "bytes 4-9/" + "9" * 30, "bytes ٤-9/10"],
)  # fmt: skip
def test_a_range_that_is_not_the_rest_is_refused(stated: str) -> None:
    rest, into = begun()
    with pytest.raises(TransportError, match="asked for the bytes from 4 on, but got"):
        rest.accept(206, {"Content-Range": stated, "ETag": TAG})
    assert into.received == 4


def test_another_version_is_refused() -> None:
    rest, _ = begun()
    with pytest.raises(TransportError, match="changed"):
        rest.accept(206, {"Content-Range": "bytes 4-9/10", "ETag": '"other"'})
    with pytest.raises(TransportError, match="the whole body came, or another one"):
        rest.accept(200, {"Content-Length": "10", "ETag": '"other"'})


def test_another_size_is_refused_by_the_landing() -> None:
    rest, _ = begun()
    with pytest.raises(UnreadableBody, match="10 bytes before and has 12 now"):
        rest.accept(206, {"Content-Range": "bytes 4-11/12", "ETag": TAG})
    with pytest.raises(BodyTooLarge):
        Resumption(landing(9)).accept(200, {"Content-Length": "10"})


@pytest.mark.parametrize("length", ["", "-1", "1_0", "x", "٩", "9" * 30, "1, 1"])
def test_a_body_of_unknown_size_is_refused(length: str) -> None:
    with pytest.raises(TransportError, match="how large"):
        Resumption(landing()).accept(200, {"Content-Length": length})


@pytest.mark.parametrize("status", [201, 204, 206, 301, 304, 307])
def test_what_is_no_whole_body_is_refused(status: int) -> None:
    with pytest.raises(TransportError, match=f"the answer was {status}"):
        Resumption(landing()).accept(status, {"Content-Length": "10", "Content-Range": "bytes 0-9/10"})


@given(
    st.integers(200, 399), st.dictionaries(st.sampled_from(["Content-Length", "Content-Range", "ETag"]), st.text())
)
def test_any_head_is_accepted_or_refused(status: int, headers: dict[str, str]) -> None:
    rest, into = begun()
    try:
        rest.accept(status, headers)
    except FlnetError:
        pass
    else:
        assert into.total == 10


# --- codings


def coded(*codings: str) -> tuple[Resumption, Landing]:
    into = Landing(lambda head, total: False, 1000, 100, codings=("zstd",))
    return Resumption(into, codings), into


def test_a_coding_is_asked_for_and_the_rest_in_the_same_one() -> None:
    rest, into = coded("zstd")
    assert rest.headers() == {"Accept-Encoding": "zstd"}
    rest.accept(200, {"Content-Length": "10", "ETag": TAG, "Content-Encoding": " ZSTD"})
    into.write(b"0123")
    assert (into.coding, into.received) == ("zstd", 4)
    assert rest.headers() == {"Accept-Encoding": "zstd", "Range": "bytes=4-", "If-Range": TAG}
    assert Resumption(into).headers() == {"Accept-Encoding": "zstd", "Range": "bytes=4-"}
    rest.accept(206, {"Content-Range": "bytes 4-9/10", "Content-Encoding": "zstd"})
    with pytest.raises(UnreadableBody, match="coding 'identity', which was not asked for"):
        rest.accept(206, {"Content-Range": "bytes 4-9/10"})


@pytest.mark.parametrize("stated", [{}, {"Content-Encoding": "identity"}])
def test_who_does_not_compress_is_not_asked_for_it_again(stated: dict[str, str]) -> None:
    into = landing()
    rest = Resumption(into, ("zstd",))
    rest.accept(200, {"Content-Length": "10", **stated})
    into.write(b"0123")
    assert into.coding is None
    assert rest.headers() == {"Range": "bytes=4-"}


@pytest.mark.parametrize("stated", ["gzip", "zstd, zstd", "br\n", "x" * 300])
def test_a_coding_that_nobody_asked_for_is_refused(stated: str) -> None:
    rest, into = coded("zstd")
    with pytest.raises(UnreadableBody, match="which was not asked for"):
        rest.accept(200, {"Content-Length": "10", "Content-Encoding": stated})
    assert into.total is None

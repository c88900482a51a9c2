import pytest

from flnet.blob import Blob
from flnet.transport.outgoing import SMALL, post, url_of


@pytest.mark.parametrize(
    ("address", "path", "url"),
    [
        ("127.0.0.1:4000", "/announce", "http://127.0.0.1:4000/announce"),
        ("[::1]:4000", "/jobs/a b/history?last=5&x=1", "http://[::1]:4000/jobs/a%20b/history?last=5&x=1"),
    ],
)
def test_addresses_become_urls(address: str, path: str, url: str) -> None:
    assert url_of(address, path) == url


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "host:0", "host:65536", "a/b:1", "host:1x"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"host|port|name|address"):
        url_of(address, "/")


def test_small_bodies_go_whole_and_large_ones_in_pieces() -> None:
    assert post(Blob([b"ab", b"c"]), "t").body == b"abc"
    large = post(b"x" * (SMALL + 1), "t")
    assert isinstance(large.body, Blob)
    assert large.headers == {"Content-Type": "t", "Content-Length": str(SMALL + 1)}

from pathlib import Path

import pytest

from flnet.errors import StartError
from flnet.keys import own_key
from flnet.keys.signer import load_signer


def test_a_node_signs_with_the_key_that_it_is_known_by(tmp_path: Path) -> None:
    key = own_key(tmp_path).text

    signer = load_signer(tmp_path)

    assert signer.text == key
    signature = signer.sign(b"said")
    assert len(signature) == 64
    assert signer.verify(key, signature, b"said")
    assert not signer.verify(key, signature, b"sais")
    assert not signer.verify(key, b"", b"said")
    assert not signer.verify("AAAA", signature, b"said")


def test_another_nodes_key_did_not_sign(tmp_path: Path) -> None:
    for name in "ab":
        own_key(tmp_path / name)
    a, b = (load_signer(tmp_path / name) for name in "ab")

    assert not a.verify(b.text, a.sign(b"said"), b"said")


@pytest.mark.parametrize("content", [None, b"", b"no key"])
def test_a_key_that_cannot_be_used_stops_the_start(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "identity.key").write_bytes(content)

    with pytest.raises(StartError, match="cannot be used to sign"):
        load_signer(tmp_path)

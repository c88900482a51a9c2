"""aiohttp comes without certificate authorities, and everything else finds them as before."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys

import pytest

from flnet.transport.lean_import import PLACES, no_authorities


def authorities() -> int:
    return len(ssl.create_default_context().get_ca_certs())


def test_contexts_made_meanwhile_find_no_authority() -> None:
    before = authorities()
    with no_authorities():
        assert authorities() == 0
    assert authorities() == before


@pytest.mark.parametrize("value", [None, "/somewhere/else"])
def test_the_environment_is_as_before_also_after_a_failure(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PLACES:
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    with pytest.raises(RuntimeError), no_authorities():
        raise RuntimeError
    assert [os.environ.get(name) for name in PLACES] == [value, value]


def test_a_node_loads_aiohttp_without_authorities() -> None:
    code = (
        "import flnet.transport, aiohttp.connector as c; "
        "print(sum(len(x.get_ca_certs()) for x in vars(c).values() if type(x).__name__ == 'SSLContext'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"

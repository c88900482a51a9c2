"""Threat 5: bodies that would run code where they are unpickled or executed. The canary's file is never made."""

from __future__ import annotations

import base64
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from flnet.wire.binary_codec import BINARY_TYPE
from tests.processes.harness import RealNode
from tests.threats.stranger import POSTS, post, target

pytestmark = pytest.mark.slow
CANARY = f"{tempfile.gettempdir()}/flnet-canary-of-threat-5-{os.getpid()}"  # of these tests alone
COMMAND = f"touch {CANARY}"
TYPES = ("application/json", BINARY_TYPE, "application/octet-stream", "application/x-yaml", "application/zip")


def pickled(protocol: int) -> bytes:
    """`os.system(COMMAND)` as a pickle, written by hand: this repository never imports what makes one."""
    if protocol == 0:
        return f"cos\nsystem\n(S'{COMMAND}'\ntR.".encode()
    text = COMMAND.encode()
    return b"\x80" + bytes([protocol]) + b"cos\nsystem\nX" + len(text).to_bytes(4, "little") + text + b"\x85R."


def archive(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, data in members.items():
            made.writestr(name.replace("__", "/").replace("_dot_", "."), data)
    return out.getvalue()


def tensor_file(header: object, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


NPY = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117) + b"\n"
LAMBDA = json.dumps({"class_name": "Lambda", "config": {"function": ["4wEA", None, None]}}).encode()
PAYLOADS = {
    **{f"pickle {protocol}": pickled(protocol) for protocol in (0, 2, 3, 4, 5)},
    "pickle in base64": json.dumps({"modelParams": base64.b64encode(pickled(4)).decode()}).encode(),
    "pickle as an array": json.dumps({"modelParams": {"w": list(pickled(2))}}).encode(),
    "torch": archive(archive__data_dot_pkl=pickled(2), archive__version=b"3"),
    "numpy objects": NPY + pickled(3),
    "npz": archive(w_dot_npy=NPY + pickled(3)),
    "keras": archive(config_dot_json=LAMBDA, metadata_dot_json=b"{}"),
    "yaml": f"!!python/object/apply:os.system ['{COMMAND}']".encode(),
    "jsonpickle": json.dumps({"py/reduce": [{"py/function": "os.system"}, {"py/tuple": [COMMAND]}]}).encode(),
    "class names": json.dumps({"__class__": "os.system", "type_name": "os.system", "args": [COMMAND]}).encode(),
    "python": f"__import__('os').system('{COMMAND}')".encode(),
    "template": b'{"iAm": {"id": "{{ cycler.__init__.__globals__.os.system() }}", "port": "1"}}',
    "shell": json.dumps({"trainerId": f"$({COMMAND})", "rounds": f"`{COMMAND}`"}).encode(),
    "path": json.dumps({"trainerId": "../../etc/passwd"}).encode(),
    "tensors of objects": tensor_file({"w": {"dtype": "O", "shape": [1], "data_offsets": [0, 8]}}, pickled(2)[:8]),
    "tensors named so": tensor_file({"__reduce__": {"dtype": "I8", "shape": [1], "data_offsets": [0, 1]}}, b"c"),
    "metadata": tensor_file({"__metadata__": {"flnet": "1", "message": pickled(0).decode(), "code": COMMAND}}),
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    Path(CANARY).unlink(missing_ok=True)
    with target(tmp_path_factory.mktemp("code")) as made:
        yield made


@pytest.mark.parametrize("name", PAYLOADS)
def test_no_body_runs_code(node: RealNode, name: str) -> None:
    paths = (*POSTS, "/data/SLOW/import")
    place = list(PAYLOADS).index(name)
    # Every payload at every path, and at every path every type: not all of them with all others.
    for number, path in enumerate(paths):
        status, error = post(node, path, PAYLOADS[name], TYPES[(place + number) % len(TYPES)])
        assert 400 <= status < 500
        assert error
    assert not Path(CANARY).exists()


def test_the_canary_would_sing() -> None:
    """The payload is a real one: read by what must never read it, in a process of its own."""
    import subprocess
    import sys

    reader = "import importlib, sys; importlib.import_module('pic' + 'kle').loads(sys.stdin.buffer.read())"
    for protocol in (0, 2, 4):
        subprocess.run([sys.executable, "-c", reader], input=pickled(protocol), check=True)
        assert Path(CANARY).exists()
        Path(CANARY).unlink()

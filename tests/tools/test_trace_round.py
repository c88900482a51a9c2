"""The way of a message through the files of a node can be seen, and does not get longer."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.frozen.places import ROOT
from tests.mesh_name import MESH_NAME

# Files; of 1a28d2c the tool shows 80 and 90. Four of the first are of the peer's accuracy, if it comes too early each time.
MOST = {"update": 68, "click": 66}
WAYS = ("update", "click")


@pytest.mark.slow
def test_a_round_is_traced() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "tests.tools.trace_round", "--json", "--rounds", "5"],
        cwd=ROOT,
        env={**os.environ, "FLNET_MESH_NAME": MESH_NAME},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert told.returncode == 0, told.stderr[-3000:]
    ways = json.loads(told.stdout.splitlines()[-1])
    for way in WAYS:
        files = ways[way]
        assert len(files) == len(set(files))
        assert [file for file in files if not (ROOT / file).is_file()] == []
        assert any(file.startswith("flnet/rounds/") for file in files)
        assert len(files) <= MOST[way], files

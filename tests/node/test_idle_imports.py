"""What a node that has nothing to do has not imported: each of these would be memory that every node pays for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# Prints what is imported after all that `flnet run` makes before it serves, and after a request.
NODE = """
import asyncio, json, sys
import flnet.cli.run
from flnet.node.build import build_node
from flnet.settings import load_settings
from flnet.web.app import create_app

async def main():
    settings = load_settings({"state_path": sys.argv[1]}, {})
    node = build_node(settings)
    app = create_app(node, settings)
    await app.test_client().get("/info")
    asked = [await app.test_client().get(path) for path in sys.argv[2:]]
    print(json.dumps([
        list(sys.modules),
        [answer.status_code for answer in asked],
    ]))
    await node.stop()

asyncio.run(main())
"""
FRAMEWORKS = {"torch", "tensorflow", "keras", "sklearn", "jax", "scipy", "pandas", "PIL", "onnx", "onnxruntime"}
ONLY_IF_ASKED_FOR = {"cryptography", "safetensors", "segno", "prometheus_client"}
OF_THE_COMMAND_LINE = {"flnet.cli.client", "flnet.cli.demo", "flnet.simulation"}
OF_THE_TRAINING_CHILD = {"flnet.compute.worker", "trainers"}
OF_DEVELOPERS = {"pytest", "unittest", "doctest", "numpy.testing", "IPython", "pip", "setuptools"}
HEAVY = FRAMEWORKS | ONLY_IF_ASKED_FOR | OF_THE_COMMAND_LINE | OF_THE_TRAINING_CHILD | OF_DEVELOPERS


def imported_by_a_node(state: Path, *paths: str) -> tuple[set[str], list[int]]:
    """Modules that are imported and have run, and the statuses of requests to these paths."""
    done = subprocess.run(
        [sys.executable, "-c", NODE, str(state), *paths], capture_output=True, check=True, text=True, timeout=120
    )
    modules, statuses = json.loads(done.stdout.splitlines()[-1])
    return set(modules), statuses


def test_a_node_with_nothing_to_do_has_imported_nothing_heavy(tmp_path: Path) -> None:
    modules, _ = imported_by_a_node(tmp_path)
    assert sorted(modules & HEAVY) == []
    assert {"numpy", "quart", "h11", "flnet.web.page.index"} <= modules  # what is looked at is a node

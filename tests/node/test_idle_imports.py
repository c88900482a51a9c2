"""What a node that has nothing to do has not imported: each of these would be memory that every node pays for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# Prints what is imported after all that `flnet run` makes before it serves, and after a request.
NODE = """
import asyncio, json, sys
import flnet.cli.run
from flnet.node.build import build_node
from flnet.postponing import _Waiting
from flnet.settings import load_settings
from flnet.web import create_app

async def main():
    settings = load_settings({"state_path": sys.argv[1]}, {})
    node = build_node(settings)
    app = create_app(node, settings)
    await app.test_client().get("/info")
    asked = [await app.test_client().get(path) for path in sys.argv[2:]]
    print(json.dumps([
        [name for name, module in sys.modules.items() if type(vars(module).get("__loader__")) is not _Waiting],
        [answer.status_code for answer in asked],
    ]))
    await node.stop()

asyncio.run(main())
"""
FRAMEWORKS = {"torch", "tensorflow", "keras", "sklearn", "jax", "scipy", "pandas", "PIL", "onnx", "onnxruntime"}
ONLY_IF_ASKED_FOR = {"cryptography", "zstandard", "safetensors", "brotli", "segno", "prometheus_client"}
OF_THE_COMMAND_LINE = {
    "httpx",
    "httpcore",
    "rich",
    "anyio",
    "flnet.cli.client",
    "flnet.cli.demo",
    "flnet.simulation",
}
POSTPONED = {"h2.connection", "h2.stream", "hpack", "priority", "bdb", "html.entities", "logging.handlers"} | {
    "psutil._common",
    "tarfile",
}
OF_FEW_READERS = {f"flnet.web.schemas.{name}" for name in ("models", "predictions", "trust")} | {
    "flnet.web.spanish",
    "flnet.web.spanish.page",
    "flnet.web.spanish.training",
    "flnet.training.own",
}
DRAWINGS = {f"flnet.web.{name}" for name in ("cards", "charts", "mesh_picture", "parts_picture", "qr_picture")}
OF_THE_TRAINING_CHILD = {
    "flnet.training.worker",
    "flnet.training.own_table",
    "flnet.training.own_images",
    "trainers",
}
OF_SOME_MESHES = {  # labelled otherwise, with personal models, grouping rows, or wary of their peers
    "flnet.training.methods.by_labels",
    "flnet.personal",
    "flnet.clusters.learning",
    "flnet.strategies.forecast",
    "flnet.lbfgs",
    "statistics",
}
OF_DEVELOPERS = {"pytest", "unittest", "doctest", "numpy.testing", "IPython", "pip", "setuptools"}
HEAVY = (
    FRAMEWORKS
    | ONLY_IF_ASKED_FOR
    | OF_THE_COMMAND_LINE
    | POSTPONED
    | OF_FEW_READERS
    | DRAWINGS
    | OF_THE_TRAINING_CHILD
    | OF_SOME_MESHES
    | OF_DEVELOPERS
)


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
    assert {"numpy", "aiohttp", "quart", "h11", "flnet.web.page"} <= modules  # what is looked at is a node


@pytest.mark.slow
def test_what_was_postponed_is_there_when_it_is_asked_for(tmp_path: Path) -> None:
    modules, statuses = imported_by_a_node(tmp_path, "/openapi.json", "/view/api", "/metrics")
    assert statuses == [200, 200, 200]
    assert "flnet.web.schemas.models" in modules

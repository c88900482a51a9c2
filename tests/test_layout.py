"""Holds the layers: what may import what, what is never used, and how long things may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.layout_rules import LAYERS, Source, import_faults, size_faults, unbound_faults, unsafe_faults

ROOT = Path(__file__).parent.parent
LAYERED = ("flnet", "trainers", "resources", "manual_testing")
ALL = (*LAYERED, "tests", "benchmarks", "docs")


def sources(*folders: str) -> list[Source]:
    """All Python files in these folders of the repository, read."""
    return [_read(path) for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def _read(path: Path) -> Source:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    is_package = parts[-1] == "__init__"
    return Source(".".join(parts[:-1] if is_package else parts), path.read_text("utf-8"), is_package)


def none_of(faults: list[str]) -> None:
    """Fail with all faults, one per line."""
    assert not faults, "\n".join(["", *faults])


def test_every_module_imports_lower_layers_only() -> None:
    none_of([fault for source in sources(*LAYERED) for fault in import_faults(source)])


def test_nothing_can_turn_data_into_code() -> None:
    none_of([fault for source in sources(*ALL) for fault in unsafe_faults(source)])


def test_nothing_is_unpacked_without_a_limit_nor_made_from_a_model_file() -> None:
    none_of([fault for source in sources("flnet", "trainers", "resources") for fault in unbound_faults(source)])


@pytest.mark.parametrize(
    "text",
    [
        "gzip.decompress(data)",
        "zstandard.decompress(data)",
        "archive.extractall(folder)",
        "tf.keras.load_model(p)",
    ],
)
def test_a_way_to_unpack_without_a_limit_is_found(text: str) -> None:
    assert len(unbound_faults(Source("flnet.x", text))) == 1
    assert unbound_faults(Source("flnet.x", "gzip.open(path).read(100)\nstore.load_model(trainer, digest)")) == []


def test_files_and_functions_stay_short() -> None:
    shipped = [fault for source in sources("flnet", "trainers") for fault in size_faults(source)]
    others = [
        fault for source in sources("tests", "manual_testing", "docs") for fault in size_faults(source, False)
    ]
    none_of(shipped + others)


def test_every_layer_of_the_table_is_one_of_the_eleven_and_the_door() -> None:
    assert set(LAYERS.values()) == set(range(1, 13))


# The rules themselves: each of them can fail.


@pytest.mark.parametrize(
    ("module", "line", "fault"),
    [
        ("flnet.params", "from flnet.messages import Peer", "lower layers only"),
        ("flnet.params", "import flnet.messages", "lower layers only"),
        ("flnet.params", "from flnet import messages", "lower layers only"),
        ("flnet.params", "def f():\n    from flnet.messages import Peer", "lower layers only"),
        ("flnet.messages", "from flnet.settings import Settings", "lower layers only"),
        ("flnet.codec.json_codec", "from flnet.transport.base import Reply", "lower layers only"),
        ("flnet.codec.json_codec", "from flnet.rounds.averaging import Averaging", "layers 1 to 5 only"),
        ("flnet.training.lane", "from flnet.jobs import Job", "layers 1 to 5 only"),
        ("flnet.transport.http", "from flnet.transport.memory import MemoryTransport", "never see each other"),
        ("flnet.transport.http", "from .memory import MemoryTransport", "never see each other"),
        ("flnet.transport.http", "from . import memory", "never see each other"),
        ("flnet.store.sqlite", "from flnet.store import MemoryStore", "never see each other"),
        ("flnet.codec.binary", "import flnet.codec.json_codec", "never see each other"),
        ("flnet.training.process", "from flnet.training.local import LocalBackend", "never see each other"),
        ("flnet.web.app", "from flnet.simulation import cluster", "lower layers only"),
        ("flnet.experiments.plan", "from flnet.cli.tables import table", "lower layers only"),
        ("flnet.node.runtime", "from flnet.web.app import create_app", "lower layers only"),
        ("flnet.jobs.job", "import asyncio", "see no clock"),
        ("flnet.jobs.job", "from time import monotonic", "see no clock"),
        ("flnet.rounds.averaging", "import random", "see no clock"),
        ("flnet.events", "import logging", "see no clock"),
        ("flnet.settings", "import os", "see no clock"),
        ("flnet.jobs.job", "import httpx", "blake3, numpy and pydantic only"),
        ("flnet.node.perform", "import torch", "trainers/ only"),
        ("flnet.node.perform", 'import importlib\nimportlib.import_module("torch")', "trainers/ only"),
        ("flnet.training.pool", "from sklearn.linear_model import SGDClassifier", "trainers/ only"),
        ("flnet.training.loader", "from trainers import MNIST", "by name at run time"),
        ("flnet.gossip.swim", "import json", "give gossip a layer"),
        ("flnet.jobs.job", "from flnet.gossip import swim", "gossip has no layer"),
        ("trainers.MNIST", "from flnet.params import Params", "flnet.training and nothing else"),
        ("trainers.MNIST", "import flnet", "flnet.training and nothing else"),
        ("trainers.MNIST", "import httpx", "their framework"),
        ("resources.web.serve", "import json", "files, not code"),
        ("manual_testing.three_nodes", "from flnet.settings import Settings", "speaks HTTP"),
    ],
)
def test_a_forbidden_import_is_found(module: str, line: str, fault: str) -> None:
    found = import_faults(Source(module, line))
    assert len(found) == 1
    assert fault in found[0]


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("flnet.messages", "from flnet.params import Params"),
        ("flnet.jobs.job", "from flnet.jobs.steps import LEGAL"),
        ("flnet.jobs.job", "import numpy as np\nimport pydantic\nimport json\nfrom dataclasses import dataclass"),
        ("flnet.transport.http", "from flnet.transport.base import Reply"),
        ("flnet.transport.http", "from .base import Reply"),
        ("flnet.training.from_torch", "import torch"),
        ("flnet.training.pool", "import asyncio\nfrom flnet.training.api import Fit"),
        ("flnet.node.runtime", "from flnet.codec.json_codec import JsonCodec"),
        ("flnet.cli.run", "from flnet import __version__\nimport click"),
        ("flnet.cli.experiment", "from flnet.experiments.plan import Plan"),
        ("trainers.MNIST", "import torch\nimport numpy as np\nfrom flnet.training import Trainer"),
        ("manual_testing.three_nodes", "import httpx\nimport subprocess"),
    ],
)
def test_an_allowed_import_is_not(module: str, line: str) -> None:
    assert import_faults(Source(module, line)) == []


def test_a_package_may_gather_the_versions_of_its_interface() -> None:
    assert (
        import_faults(Source("flnet.store", "from flnet.store.memory import MemoryStore", is_package=True)) == []
    )


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads",
        "import marshal",
        'eval("1")',
        'exec("pass")',
        "torch.load(path)",
        "yaml.load(text)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=flag)",
        'import importlib\nimportlib.import_module("pickle")',
    ],
)
def test_a_way_from_data_to_code_is_found(text: str) -> None:
    assert len(unsafe_faults(Source("flnet.x", text))) == 1


def test_reading_plain_data_is_no_fault() -> None:
    text = "np.load(path, allow_pickle=False)\nre.compile('a')\njson.loads(text)\nmodel.eval()"
    assert unsafe_faults(Source("flnet.x", text)) == []


def test_a_long_file_and_a_long_function_are_found() -> None:
    body = "\n".join("    x = 1" for _ in range(49))
    assert size_faults(Source("flnet.x", f"def f():\n{body}")) == ["flnet.x:1: f has 50 lines"]
    assert size_faults(Source("flnet.x", f"def f():\n{body}"), functions=False) == []
    assert size_faults(Source("flnet.x", "x = 1\n" * 300)) == ["flnet.x: 300 lines; split it below 300"]


def test_a_docstring_does_not_lengthen_its_function() -> None:
    words = "\n".join("    word" for _ in range(60))
    assert size_faults(Source("flnet.x", f'def f():\n    """Say.\n{words}\n    """\n    return 1')) == []

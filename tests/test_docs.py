"""Keeps README.md and docs/ true: what the code has, they describe; what they show, works."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import cast

import click
import numpy as np
import pytest
from quart import Quart

from flnet import messages, strategies, training
from flnet.cli.commands import cli
from flnet.codec.json_codec import JsonCodec
from flnet.jobs import Phase
from flnet.node.base import Node
from flnet.params import TrainerId
from flnet.settings import PREFIX, Settings, load_settings
from flnet.web.app import create_app
from tests.layout_rules import dotted
from tests.test_layout import ROOT, sources

README = (ROOT / "README.md").read_text("utf-8")
TEXTS = {
    path.name: path.read_text("utf-8") for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
}
EVERYTHING = "\n".join(TEXTS.values())
EXAMPLE = re.compile(r"<!-- example:(?P<kind>\w+) -->\n```json\n(?P<body>.*?)\n```", re.DOTALL)
VARIABLES = {"trainer": "{trainerId}", "digest": "{digest}", "peer": "{peer}"}
TRAINER = re.compile(r"<!-- trainer:(?P<id>\w+) -->\n```python\n(?P<code>.*?)```", re.DOTALL)


def missing(names: set[str], text: str = EVERYTHING) -> list[str]:
    """Names that stand nowhere in the text as `code`."""
    spans = " ".join(re.findall(r"`([^`\n]+)`", text))
    return sorted(name for name in names if not re.search(rf"(?<![\w/]){re.escape(name)}(?![\w/])", spans))


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def routes() -> dict[str, set[str]]:
    """The paths of the application as the documents write them, with their verbs."""
    app: Quart = create_app(cast(Node, None), load_settings({}, {}))
    found: dict[str, set[str]] = {}
    for rule in app.url_map.iter_rules():
        path = re.sub(r"<(?:\w+:)?(\w+)>", lambda part: VARIABLES.get(part[1], part[0]), rule.rule)
        found.setdefault(path, set()).update((rule.methods or set()) - {"HEAD", "OPTIONS"})
    return found


def published_kinds() -> set[str]:
    """The kinds in Publish(kind, ...) and .tell(kind, ...), read off the code, variables by their values."""
    kinds: set[str] = set()
    for tree in (source.tree for source in sources("flnet")):
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.args]
        given = [n.args[0] for n in calls if dotted(n.func).rpartition(".")[2] in {"Publish", "publish", "tell"}]
        names = {n.id for n in given if isinstance(n, ast.Name)}
        set_here = [n.value for n in ast.walk(tree) if isinstance(n, ast.Assign) and dotted(n.targets[0]) in names]
        values = [
            *given,
            *set_here,
            *(v for n in set_here if isinstance(n, ast.IfExp) for v in (n.body, n.orelse)),
        ]
        kinds |= {n.value for n in values if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return kinds


def test_every_setting_is_in_the_readme() -> None:
    assert missing({PREFIX + name.upper() for name in Settings.model_fields}, README) == []


def test_no_setting_is_invented() -> None:
    written = set(re.findall(rf"\b{PREFIX}[A-Z][A-Z_]*[A-Z]\b", EVERYTHING))
    assert sorted(written - {PREFIX + name.upper() for name in Settings.model_fields}) == []


def test_every_endpoint_is_described_with_its_verb() -> None:
    wanted = {f"{verb} {path}" for path, verbs in routes().items() for verb in verbs}
    assert missing(wanted) == []


def test_no_endpoint_is_invented() -> None:
    written = set(re.findall(r"`((?:GET|POST|PATCH|PUT|DELETE) /[\w/{}.]*)`", EVERYTHING))
    assert sorted(written - {f"{verb} {path}" for path, verbs in routes().items() for verb in verbs}) == []


def test_every_command_is_described() -> None:
    assert missing({f"flnet {name}" for name in cli.list_commands(click.Context(cli))}, README) == []


def test_every_kind_of_news_and_every_phase_is_described() -> None:
    assert {"round_closed", "peer_back"} <= published_kinds()
    assert missing(published_kinds() | {phase.value for phase in Phase}, TEXTS["rounds.md"]) == []


def test_every_strategy_is_described() -> None:
    builders = {name for name in strategies.__all__ if name.islower()}
    assert missing(builders, TEXTS["architecture.md"]) == []


def test_every_shipped_trainer_is_described() -> None:
    shipped = {s.parts[1] for s in sources("trainers") if len(s.parts) > 1 and not s.parts[1].startswith("_")}
    assert missing(shipped, TEXTS["trainers.md"]) == []


@pytest.mark.parametrize("name", TEXTS)
def test_generated_parts_are_up_to_date(name: str) -> None:
    assert generator().renewed(TEXTS[name]) == TEXTS[name], "run: python docs/generate.py"


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_somewhere(name: str) -> None:
    folder = ROOT if name == "README.md" else ROOT / "docs"
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([\w-]+))?\)", TEXTS[name]):
        path = folder / target if target else folder / name
        assert path.exists(), target
        text = path.read_text("utf-8") if anchor else ""  # a picture has no headings
        headings = [line.lstrip("# ").lower() for line in text.splitlines() if line[:1] == "#"]
        assert not anchor or anchor in {re.sub(r"[^\w -]", "", line).replace(" ", "-") for line in headings}


@pytest.mark.parametrize(("kind", "body"), EXAMPLE.findall(TEXTS["protocol.md"]))
def test_example_messages_are_messages(kind: str, body: str) -> None:
    packet = JsonCodec().decode(getattr(messages, kind), body.encode())
    assert set(packet.message.fields()) | {"modelParams"} >= set(json.loads(body))


@pytest.mark.parametrize("line", [line for line in README.splitlines() if line.startswith("curl ")])
def test_curl_examples_ask_for_what_is_there(line: str) -> None:
    verb, path, body = _curl(shlex.split(line)[1:])
    named = {route.replace("{trainerId}", "MNIST"): route for route in routes()}
    matching = [named[path]] if path in named else []
    assert matching
    assert verb in routes()[matching[0]]
    if body is not None:
        kind = messages.EditHyperParams if verb == "PATCH" else messages.Trigger
        assert kind.read(json.loads(body)) is not None


def _curl(words: list[str]) -> tuple[str, str, str | None]:
    """Verb, path and body of a curl command; unknown options fail."""
    verb, body, path = "GET", None, ""
    while words:
        match words.pop(0):
            case "-X":
                verb = words.pop(0)
            case "-H":
                assert words.pop(0) == "Content-Type: application/json"
            case "-d":
                body = words.pop(0)
            case "-N":
                pass
            case url:
                assert url.startswith("http://127.0.0.1:4000/")
                path = url.removeprefix("http://127.0.0.1:4000")
    return verb, path, body


def test_a_missing_name_is_found() -> None:
    assert missing({"GET /a", "GET /a/b", "c"}, "`GET /a/b` and `see c.`") == ["GET /a"]


async def test_the_readmes_trainer_trains(tmp_path: Path) -> None:
    found = TRAINER.search(README)
    assert found is not None
    assert len(found["code"].splitlines()) < 40
    folder, data = tmp_path / "trainers", tmp_path / "data"
    folder.mkdir()
    data.mkdir()
    (folder / f"{found['id']}.py").write_text(found["code"], "utf-8")
    _write_table(data / "table.csv")
    paths = {"trainers_path": folder, "datasets_path": data, "state_path": tmp_path / "state"}
    settings = load_settings({**paths, "compute": "thread"}, {})
    before, after = await _train_once(settings, TrainerId(found["id"]))
    assert after > max(before, 0.9)


def _write_table(path: Path) -> None:
    """150 rows of three well separated classes."""
    chance = np.random.default_rng(0)
    classes = np.repeat(np.arange(3), 50)
    numbers = np.eye(3, 4)[classes] * 3 + chance.normal(scale=0.5, size=(150, 4))
    np.savetxt(path, np.column_stack([numbers, classes]), delimiter=",")


async def _train_once(settings: Settings, trainer: TrainerId) -> tuple[float, float]:
    """Accuracy before and after one local training, in the lane of this process."""
    pool = training.make_pool(settings, lambda trainer, done, total: None)
    try:
        declaration, params = await pool.prepare(trainer)
        before = await pool.evaluate(trainer, params)
        _, after = await pool.fit(trainer, params, declaration.defaults, seed=1)
    finally:
        await pool.close()
    return before.accuracy, after.accuracy

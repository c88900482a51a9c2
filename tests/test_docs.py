"""Keeps README.md and docs/ true: what the code has, they describe; what they show, works."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
from functools import cache
from pathlib import Path
from types import ModuleType

import click
import numpy as np
import pytest

from flnet.algorithms import registry
from flnet.cli.commands import cli
from flnet.compute import queue as training
from flnet.compute.verbs import EvaluateRequest, FitRequest, FitResult, PrepareRequest
from flnet.node.interface import EditHyperParams
from flnet.params.params import TrainerId
from flnet.protocol import messages, secure_sum, segments
from flnet.rounds.steps import Phase
from flnet.settings import PREFIX, Settings, load_settings
from flnet.trainer import HyperParams, NoisySteps, RowPrivacy, Score
from flnet.web.app import ROUTES
from flnet.wire.json_codec import JsonCodec
from tests.test_layout import ROOT, dotted, sources

README = (ROOT / "README.md").read_text("utf-8")
SECURITY = (ROOT / "SECURITY.md").read_text("utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {str(path.relative_to(ROOT)).removeprefix("docs/"): path.read_text("utf-8") for path in PAGES[:1]}
TEXTS |= {("index" if path.stem == "README" else path.name): path.read_text("utf-8") for path in PAGES[1:]}
EVERYTHING = "\n".join(TEXTS.values())
EXAMPLE = re.compile(r"<!-- example:(?P<kind>\w+) -->\n```json\n(?P<body>.*?)\n```", re.DOTALL)
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


@cache
def routes() -> dict[str, set[str]]:
    """The paths of the application as the documents write them, with their verbs."""
    result: dict[str, set[str]] = {}
    for route in ROUTES:
        result.setdefault(route.path, set()).add(route.method)
    return result


def published_kinds() -> set[str]:
    """The kinds in Publish(kind, ...) and .tell(kind, ...), read off the code, variables by their values."""
    kinds: set[str] = set()
    for tree in (source.tree for source in sources("flnet") if re.search(r"(publish|tell)\(", source.text, re.I)):
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.args]
        given = [
            n.args[0]
            for n in calls
            if dotted(n.func).rpartition(".")[2] in {"Publish", "publish", "tell", "_tell"}
        ]
        names = {n.id for n in given if isinstance(n, ast.Name)}
        set_here = [n.value for n in ast.walk(tree) if isinstance(n, ast.Assign) and dotted(n.targets[0]) in names]
        values = [
            *given,
            *set_here,
            *(v for n in set_here if isinstance(n, ast.IfExp) for v in (n.body, n.orelse)),
        ]
        kinds |= {n.value for n in values if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return kinds


def test_no_setting_is_invented() -> None:
    written = set(re.findall(rf"\b{PREFIX}[A-Z][A-Z_]*[A-Z]\b", EVERYTHING))
    assert sorted(written - {PREFIX + name.upper() for name in Settings.model_fields}) == []


def test_no_endpoint_is_invented() -> None:
    written = set(re.findall(r"`((?:GET|POST|PATCH|PUT|DELETE) /[\w/{}.]*)`", EVERYTHING))
    assert sorted(written - {f"{verb} {path}" for path, verbs in routes().items() for verb in verbs}) == []


def test_every_kind_of_news_and_every_phase_is_described() -> None:
    kinds = published_kinds()
    assert {"round_closed", "peer_back"} <= kinds
    assert missing(kinds | {phase.value for phase in Phase}, TEXTS["rounds.md"]) == []


def test_every_aggregation_rule_is_described() -> None:
    packages = ("flnet.aggregation.", "flnet.algorithms.")
    functions = {name: value for name, value in vars(registry).items() if callable(value) and name.islower()}
    builders = {name for name, value in functions.items() if value.__module__.startswith(packages)}
    builders -= {"overrides"}  # asks a trainer for a method
    builders -= {name for name, value in functions.items() if value.__module__ == registry.__name__}
    assert missing(builders, TEXTS["architecture.md"]) == []


def test_every_setting_endpoint_command_and_trainer_is_described() -> None:
    settings = {PREFIX + name.upper() for name in Settings.model_fields}
    commands = {f"flnet {name}" for name in cli.list_commands(click.Context(cli))}
    shipped = {s.parts[1] for s in sources("trainers") if len(s.parts) > 1 and not s.parts[1].startswith("_")}
    assert missing(settings, TEXTS["settings.md"]) == []
    assert missing({f"{verb} {path}" for path, verbs in routes().items() for verb in verbs}) == []
    assert missing(commands, TEXTS["commands.md"]) == []
    assert missing(shipped, TEXTS["trainers.md"]) == []


@pytest.mark.parametrize("name", TEXTS)
def test_generated_parts_are_up_to_date(name: str) -> None:
    assert generator().renewed(TEXTS[name]) == TEXTS[name], "run: python docs/generate.py"


def test_every_threat_has_tests_and_every_test_of_a_threat_is_named() -> None:
    threats = ROOT / "tests" / "threats"
    rows = [line.strip("| ").split(" | ") for line in SECURITY.splitlines() if re.match(r"\| [\d, ]+ \|", line)]
    named = {row[0]: re.findall(r"`([^`]+)`", row[-1]) for row in rows}
    for numbers, tests in named.items():
        assert tests, numbers
        for test in tests:
            assert (ROOT / test if "/" in test else threats / test).exists(), f"row {numbers}: {test}"
    for path in threats.glob("test_[0-9][0-9]_*.py"):
        number = str(int(path.name[5:7]))
        tests = next(tests for numbers, tests in named.items() if number in numbers.split(", "))
        assert path.name in tests, f"row {number} does not name {path.name}"


def test_security_invents_no_test_setting_or_page() -> None:
    paths = re.findall(r"`((?:tests|docs)/[\w/.]+)`", SECURITY) + re.findall(r"\]\(([^):#]+)", SECURITY)
    assert [path for path in paths if not (ROOT / path).exists()] == []
    modules = re.findall(r"python -m (tests[\w.]+)", SECURITY)
    assert [name for name in modules if not (ROOT / f"{name.replace('.', '/')}.py").exists()] == []
    settings = set(re.findall(rf"\b{PREFIX}[A-Z_]*[A-Z]\b", SECURITY))
    assert sorted(settings - {PREFIX + name.upper() for name in Settings.model_fields}) == []


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_somewhere(name: str) -> None:
    folder = ROOT if name == "README.md" else ROOT / "docs"
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([\w-]+))?\)", TEXTS[name]):
        path = folder / target if target else folder / name.replace("index", "README.md")
        assert path.exists(), target
        text = path.read_text("utf-8") if anchor else ""  # a picture has no headings
        headings = [line.lstrip("# ").lower() for line in text.splitlines() if line[:1] == "#"]
        assert not anchor or anchor in {re.sub(r"[^\w -]", "", line).replace(" ", "-") for line in headings}


@pytest.mark.parametrize(("kind", "body"), EXAMPLE.findall(TEXTS["protocol.md"]))
def test_example_messages_are_messages(kind: str, body: str) -> None:
    kinds = {**vars(messages), **vars(secure_sum), **vars(segments)}
    packet = JsonCodec().decode(kinds.get(kind, EditHyperParams), body.encode())
    assert set(packet.message.fields()) | {"modelParams"} >= set(json.loads(body))


@pytest.mark.parametrize("line", [line for line in TEXTS["endpoints.md"].splitlines() if line.startswith("curl ")])
def test_curl_examples_ask_for_what_is_there(line: str) -> None:
    verb, path, body = _curl(shlex.split(line)[1:])
    named = {route.replace("{trainerId}", "MNIST"): route for route in routes()}
    matching = [named[path]] if path in named else []
    assert matching
    assert verb in routes()[matching[0]]
    if body is not None:
        kind = EditHyperParams if verb == "PATCH" else messages.Trigger
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


async def test_the_documented_trainer_trains(tmp_path: Path) -> None:
    code = _documented("MY_TABLE")
    assert len(code.splitlines()) < 40
    before, (_, after) = await _train_once(_node_with("MY_TABLE", code, tmp_path), TrainerId("MY_TABLE"))
    assert after.accuracy > max(before.accuracy, 0.9)


@pytest.mark.parametrize(("privacy", "noisy"), [(None, None), (RowPrivacy(0.3, 2.0), NoisySteps(64 / 120, 2))])
async def test_the_documented_trainer_that_can_hide_rows_trains(
    privacy: RowPrivacy | None, noisy: NoisySteps | None, tmp_path: Path
) -> None:
    settings = _node_with("MY_PRIVATE_TABLE", _documented("MY_PRIVATE_TABLE"), tmp_path)
    hyper = HyperParams(e=1, u=0.5, b=64)
    _, (fit, score) = await _train_once(settings, TrainerId("MY_PRIVATE_TABLE"), hyper, privacy)
    assert score.accuracy > 0.8
    assert fit.noisy == noisy


def _documented(name: str) -> str:
    """The code of this trainer in the text for plug-in authors."""
    (code,) = [found["code"] for found in TRAINER.finditer(TEXTS["trainers.md"]) if found["id"] == name]
    return code


def _node_with(name: str, code: str, folder: Path) -> Settings:
    """Settings of a node with this trainer and a table for it."""
    trainers, data = folder / "trainers", folder / "data"
    trainers.mkdir()
    data.mkdir()
    (trainers / f"{name}.py").write_text(code, "utf-8")
    _write_table(data / "table.csv")
    paths = {"trainers_path": trainers, "datasets_path": data, "state_path": folder / "state"}
    return load_settings({**paths, "compute": "thread"}, {})


def _write_table(path: Path) -> None:
    """150 rows of three well separated classes."""
    chance = np.random.default_rng(0)
    classes = np.repeat(np.arange(3), 50)
    numbers = np.eye(3, 4)[classes] * 3 + chance.normal(scale=0.5, size=(150, 4))
    np.savetxt(path, np.column_stack([numbers, classes]), delimiter=",")


async def _train_once(
    settings: Settings, trainer: TrainerId, hyper: HyperParams | None = None, privacy: RowPrivacy | None = None
) -> tuple[Score, FitResult]:
    """What is measured before one local training, and its result, in the compute queue of this process."""
    pool = training.make_queue(settings, lambda trainer, done, total: None)
    try:
        declaration, params = await pool.call(trainer, PrepareRequest())
        before = await pool.call(trainer, EvaluateRequest(params))
        asked = FitRequest(params, hyper or declaration.defaults, seed=1, row_privacy=privacy)
        return before, await pool.call(trainer, asked)
    finally:
        await pool.close()

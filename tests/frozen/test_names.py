"""What people, scripts and plug-ins name stays: imports of trainers, settings, commands, options, exit codes."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import flnet.training.api
from tests.frozen.places import free_port

from . import golden, internals


def plain(value: Any) -> Any:
    """A default as JSON has it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict) or hasattr(value, "items"):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [plain(inner) for inner in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def parameters(function: Any) -> list[str]:
    """Names of the parameters of a function, those that may be left away with their defaults."""
    return [
        name if parameter.default is inspect.Parameter.empty else f"{name}={_default(parameter.default)}"
        for name, parameter in inspect.signature(function).parameters.items()
    ]


def _default(value: Any) -> Any:
    is_made = callable(value) or "factory" in repr(value)
    return "..." if is_made else plain(value)


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """What a class offers to plug-ins: its fields, its attributes and its methods."""
    yield "called with", parameters(kind)
    for name in sorted(dir(kind)):
        value = inspect.getattr_static(kind, name)
        is_generated = name.startswith("_") or name in ("model_fields", "model_config", "model_computed_fields")
        if is_generated or _is_of_others(kind, name):
            continue
        if isinstance(value, staticmethod | classmethod):
            yield name, parameters(value.__func__)
        elif inspect.isfunction(value):
            yield name, parameters(value)
        elif isinstance(value, property):
            yield name, "property"
        elif not inspect.ismemberdescriptor(value):
            yield name, plain(value)


def _is_of_others(kind: type, name: str) -> bool:
    others = (base for base in kind.__mro__ if base.__module__.partition(".")[0] in ("pydantic", "builtins"))
    return any(name in vars(base) for base in others)


def contract() -> dict[str, Any]:
    """All that a trainer can import."""
    offered: dict[str, Any] = {}
    for name in sorted(flnet.training.api.__all__):
        value = getattr(flnet.training.api, name)
        offered[name] = dict(members(value)) if inspect.isclass(value) else "a type"
    return offered


def command(of: click.Command) -> dict[str, Any]:
    """The arguments and options of a command, and its commands."""
    known: dict[str, Any] = {}
    for parameter in of.params:
        if isinstance(parameter, click.Option):
            name = " ".join(sorted([*parameter.opts, *parameter.secondary_opts]))
        else:
            name = f"<{parameter.name}>"
        default = parameter.default if parameter.default is not None and not callable(parameter.default) else None
        known[name] = {
            "takes": parameter.type.name,
            "choices": list(getattr(parameter.type, "choices", ())),
            "many": parameter.multiple or parameter.nargs,
            "flag": bool(getattr(parameter, "is_flag", False)),
            "needed": parameter.required,
            "variable": parameter.envvar,
            "default": None if "Sentinel" in repr(default) else plain(default),
        }
    told = {"hidden": of.hidden, "options": known}
    if isinstance(of, click.Group):
        context = click.Context(of)
        names = {name: of.get_command(context, name) for name in of.list_commands(context)}
        told["commands"] = {name: command(one) for name, one in names.items() if one is not None}
    return told


def settings() -> dict[str, Any]:
    """FLNET_* names, their defaults, and what each accepts."""
    schema = internals.Settings.model_json_schema()
    accepted, parts = schema["properties"], schema.get("$defs", {})
    for described in (*accepted.values(), *parts.values()):
        for words in ("description", "title"):
            described.pop(words, None)
    kinds = {f"a {name}": described for name, described in parts.items()}
    return kinds | {
        f"FLNET_{name.upper()}": {"default": plain(field.default), "accepts": accepted[name]}
        for name, field in internals.Settings.model_fields.items()
    }


def test_what_trainers_import() -> None:
    golden.check("plugins.json", contract())


def test_settings() -> None:
    golden.check("settings.json", settings())


def test_commands_and_options() -> None:
    golden.check("commands.json", command(internals.cli))


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--version"], 0),
        (["--help"], 0),
        (["nothing"], 2),
        (["status", "--nothing"], 2),
        (["status", "--node", "127.0.0.1:{free}"], 3),
        (["peers", "--node", "127.0.0.1:{free}"], 3),
        (["train", "MNIST", "--node", "127.0.0.1:{free}"], 3),
        (["run", "--node-port", "0"], 2),
        (["run", "--aggregation", "best"], 2),
        (["run", "--config", "{folder}/none.toml"], 2),
        (["run", "--mesh-mode", "keyed"], 2),
        (["data", "import", "MNIST", "{folder}/none.zip", "--node", "127.0.0.1:{free}"], 1),
        (["doctor", "--state-path", "{folder}/none"], 1),
        (["experiment", "none"], 2),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else str(one),
)
def test_exit_codes(words: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = [word.format(free=free_port(), folder=tmp_path) for word in words]
    assert CliRunner().invoke(internals.cli, given, prog_name="flnet").exit_code == code

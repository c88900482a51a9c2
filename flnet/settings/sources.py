"""Where settings come from: options, variables and a file, merged; a wrong one stops the start by its name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from flnet.errors import SettingsError
from flnet.settings.model import SECRET, Settings, Source
from flnet.settings.place import PREFIX


def load_settings(
    options: Mapping[str, Any], environ: Mapping[str, str], file: Mapping[str, Any] | None = None
) -> Settings:
    """Merge the sources, and remember them; an option beats a variable beats the file.

    Args:
        options: by field name; None stands for "not given".
        environ: the process's variables; those without the prefix are not looked at.
        file: the parsed flnet.toml, by field name.

    Raises:
        SettingsError: unknown names, and values with the rule that they broke; all of them at once.
    """
    known = Settings.model_fields
    problems = []
    values: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    spelled: dict[str, str] = {}  # field -> how the person wrote it, for the error
    for name, value in (file or {}).items():
        spelled[name], values[name], sources[name] = f"{name} in flnet.toml", value, "file"
        if name not in known:
            problems.append(f"{name} in flnet.toml is no setting{_nearest(name)}")
    for variable in sorted(v for v in environ if v.startswith(PREFIX)):
        name = variable[len(PREFIX) :].lower()
        if name not in known:
            problems.append(f"{variable} is no setting{_nearest(name, PREFIX)}")
        elif environ[variable] != "":
            spelled[name], values[name], sources[name] = variable, environ[variable], "variable"
    for name, value in options.items():
        if value is not None and value != ():
            spelled[name], values[name] = "--" + name.replace("_", "-"), value
            sources[name] = "option"
    values = {name: value for name, value in values.items() if name in known}
    try:
        settings = Settings.model_validate(values)
    except ValidationError as exc:
        problems += [_words(error, spelled) for error in exc.errors(include_url=False)]
    if problems:
        raise SettingsError("; ".join(problems))
    return settings.came_from(sources)


def _nearest(name: str, prefix: str = "") -> str:
    near = difflib.get_close_matches(name, Settings.model_fields, n=1)
    if not near:
        return ""
    return f"; did you mean {prefix}{near[0].upper() if prefix else near[0]}?"


def _words(error: Any, spelled: Mapping[str, str]) -> str:
    rule = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return str(rule)
    name = str(error["loc"][0])
    said = "***" if SECRET.search(name) else error["input"]
    return f"{spelled.get(name, PREFIX + name.upper())}={said!s}: {rule}"

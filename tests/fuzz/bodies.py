"""Sound bodies of every kind of message that the package has, each field of it at least once.

They are found, not written: a value of a list is tried for each field until the field takes it. So a message or a field
that is added is fuzzed from then on; a field that takes none of the values needs one more in the list.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

import flnet.node.interface  # noqa: F401 - has messages of its own
from flnet.protocol.messages import Message

KEY = "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w="
VALUES: tuple[Any, ...] = (
    *(1, 2, 0.5, True),
    *("north", "127.0.0.1", "4000", "alive", "accuracy>=0.9", "every 6h", "median", "goal", "0123456789abcdef"),
    *("ab" * 32, "ab" * 16, KEY, "B" * 86 + "==", "", None),
)


@cache
def kinds() -> tuple[type[Message], ...]:
    """Every kind of message, by name."""
    found, waiting = set[type[Message]](), [Message]
    while waiting:
        kind = waiting.pop()
        found.add(kind)
        waiting += kind.__subclasses__()
    own = (kind for kind in found if kind.__module__.startswith("flnet.") and kind.model_fields)
    return tuple(sorted(own, key=lambda kind: kind.__qualname__))


def bodies(kind: type[Message]) -> Iterator[bytes]:
    """Bodies of one kind: with all fields, and for each optional field one with that alone."""
    whole = fields_of(kind)
    yield json.dumps(whole).encode()
    needed = {field.alias or name for name, field in kind.model_fields.items() if field.is_required()}
    for name in whole.keys() - needed:
        yield json.dumps({each: value for each, value in whole.items() if each in needed or each == name}).encode()


@cache
def fields_of(kind: type[Message]) -> dict[str, Any]:
    """A value for each field, by its name on the wire.

    Raises:
        LookupError: there is none for one of them.
    """
    return {
        field.alias or name: _value(kind, field.alias or name, field.annotation)
        for name, field in kind.model_fields.items()
    }


def _value(kind: type[Message], name: str, annotation: Any) -> Any:
    inner = [*(fields_of(part) for part in _messages(annotation)), *_words(annotation)]
    plain = [*inner, *VALUES]
    lists = [[value] for value in plain] + [[[value, value]] for value in VALUES]
    maps = [{"classes": value} for value in VALUES] + [{"north": value, "south": value} for value in plain]
    for value in (*plain[: len(inner)], *lists, *maps, *VALUES):
        if _takes(kind, name, value):
            return value
    raise LookupError(f"no value fits {kind.__name__}.{name}: add one to tests/fuzz/bodies.py")


def _messages(annotation: Any) -> list[type[Message]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation] if issubclass(annotation, Message) else []
    return [kind for part in get_args(annotation) for kind in _messages(part)]


def _words(annotation: Any) -> list[Any]:
    """The values of a field that has only these."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [word for part in get_args(annotation) for word in _words(part)]


def _takes(kind: type[Message], name: str, value: Any) -> bool:
    try:
        kind.model_validate_json(json.dumps({name: value}))
    except ValidationError as exc:
        return all(error["loc"][:1] != (name,) for error in exc.errors())
    return True

"""The description of the REST API is that of before: paths, parameters, bodies, answers, and their words."""

from __future__ import annotations

import json
import re
from typing import Any

from . import golden, twins

_MODULE = re.compile(r"`flnet\.[\w.]+`")  # modules may move


def without_modules(value: Any) -> Any:
    """The same value, with every name of a module of flnet as `flnet`."""
    return json.loads(_MODULE.sub("`flnet`", json.dumps(value)))


async def test_the_description() -> None:
    client, _ = await twins.fresh()
    described = await (await client.get("/openapi.json")).get_json()
    described["info"].pop("version")
    golden.check("openapi.json.gz", without_modules(described))

"""How people install what is missing: by a command that works where this flnet came from.

On the public package index, "flnet" is another program. This one is called DISTRIBUTION there; it is imported as flnet.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

DISTRIBUTION = "flnet-mesh"
_AROUND = Path(__file__).parents[1]  # the clone, where flnet is imported from one
_IMAGE = Path("/.dockerenv")


@cache
def install(extra: str) -> str:
    """The command that installs an extra: from the clone or the file from which flnet was installed, if it is there."""
    place = origin()
    if place is None and _IMAGE.exists():
        return f"docker build --build-arg EXTRAS={extra} ."
    return f'pip install "{place or DISTRIBUTION}[{extra}]"'


def origin() -> Path | None:
    """The clone or the file from which flnet was installed (PEP 610); None if it came from an index, or is gone."""
    if (_AROUND / "pyproject.toml").is_file():
        return _AROUND
    try:
        stated = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return None
    url = urlsplit(str(stated.get("url", "")))
    place = Path(url2pathname(url.path))
    return place if url.scheme == "file" and place.exists() else None

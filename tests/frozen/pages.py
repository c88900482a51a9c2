"""Asks for a page as a browser does, and leaves out of its HTML what differs in every run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

FAR = ("192.0.2.7", 5)  # a reader on another machine
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
MULTIPART = {"Content-Type": "multipart/form-data; boundary=B"}
MASKS = (
    (r"/web/[0-9a-f]{12}/", "/web/VERSION/"),
    (r"notice=[\w-]+", "notice=NOTICE"),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)?", "TIME"),
    (r"\b\d\d:\d\d:\d\d\b", "CLOCK"),
)


@dataclass
class Asked:
    """One request for a page.

    Attributes:
        form: fields of a form that is sent first; what is recorded is the page that it leads to.
        body: likewise, as it is sent.
        before: what happens to the node before.
        far: whether the reader is on another machine.
    """

    name: str
    path: str
    form: Mapping[str, str] | None = None
    body: bytes | None = None
    before: Callable[[], Any] = field(default=lambda: None)
    far: bool = False


def normalised(html: str) -> str:
    """HTML with one element a line, single spaces, and without what differs in every run."""
    for pattern, word in MASKS:
        html = re.sub(pattern, word, html)
    html = re.sub(r"\s+", " ", html)
    return re.sub(r" ?(</?(?:[a-z][\w-]*)[^>]*>) ?", r"\n\1\n", html).replace("\n\n", "\n").strip()


async def shown(client: Any, asked: Asked, language: str) -> str:
    """The page that a reader of this language gets."""
    headers = {"Accept-Language": language}
    scope: dict[str, Any] = {"scope_base": {"client": FAR}} if asked.far else {}
    if asked.form is not None or asked.body is not None:
        body = asked.body if asked.body is not None else urlencode(asked.form or {}).encode()
        kind = MULTIPART if asked.body is not None else FORM
        answer = await client.post(asked.path, data=body, headers={**headers, **kind}, **scope)
        if answer.status_code != 303:
            return f"{answer.status_code}\n{normalised(await answer.get_data(as_text=True))}"
        asked = Asked(asked.name, answer.headers["Location"].partition("#")[0])
    answer = await client.get(asked.path, headers=headers, **scope)
    return f"{answer.status_code}\n{normalised(await answer.get_data(as_text=True))}"

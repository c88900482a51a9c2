"""Reads a page as a browser would, and presses its buttons."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import urlencode

from tests.web.conftest import Client

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Page(HTMLParser):
    """The tags of a page with their attributes, its text, and what stands between script tags.

    Attributes:
        words: the pieces of the text, without those that are marked as code.
        code: the pieces that are.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.inline = ""
        self.words: list[str] = []
        self.code: list[str] = []
        self._tag = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._tag = tag

    def handle_endtag(self, tag: str) -> None:
        self._tag = ""

    def handle_data(self, data: str) -> None:
        if self._tag in ("script", "style"):
            self.inline += data.strip()
            return
        if words := " ".join(data.split()):
            self.text += f"{words} "
            (self.code if self._tag in ("code", "wbr") else self.words).append(words)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]

    def buttons(self) -> list[dict[str, str | None]]:
        """The buttons that start a round."""
        return [button for button in self.all("button") if button.get("class") == "go"]

    def alerts(self) -> list[dict[str, str | None]]:
        return [p for p in self.all("p") if p.get("role") == "alert"]


async def load(client: Client, path: str = "/", **headers: str) -> Page:
    answer = await client.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    assert answer.status_code == 200
    assert answer.mimetype == "text/html"
    return Page(await answer.get_data(as_text=True))


async def post(client: Client, path: str, **fields: str) -> tuple[int, str]:
    """Send a form; the status and where it leads."""
    answer = await client.post(path, data=urlencode(fields).encode(), headers=FORM)
    return answer.status_code, answer.headers.get("Location", "")


async def press(client: Client, **fields: str) -> tuple[int, str]:
    return await post(client, "/training/trigger/form", **fields)

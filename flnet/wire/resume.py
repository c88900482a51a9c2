"""Going on where a download broke off: byte ranges (RFC 9110, 14), from the first missing byte to the end."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from flnet.errors import TransportError
from flnet.params.blob import Landing
from flnet.text import text

_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")
_LENGTH = re.compile(r"[0-9]{1,18}")
_STRONG_ETAG = re.compile(r'"[!#-~]{0,200}"')  # a weak one does not promise the same bytes (RFC 9110, 13.1.5)


class Resumption:
    """One body that comes in one or several answers, all of them of the same version of it."""

    def __init__(self, landing: Landing, codings: Collection[str] = ()) -> None:
        """Args:
        landing: knows what has come so far, and is told how large the body is.
        codings: to ask for at first; ranges count the bytes as they come, so the rest is asked for as it began.
        """
        self._landing, self._codings = landing, codings
        self._etag = ""

    def headers(self) -> dict[str, str]:
        """What to ask with: nothing special at first, later for the rest."""
        coding = self._landing.coding if self._landing.received else ", ".join(self._codings)
        wanted = {"Accept-Encoding": coding} if coding else {}
        if not self._landing.received:
            return wanted
        wanted["Range"] = f"bytes={self._landing.received}-"
        return {**wanted, "If-Range": self._etag} if self._etag else wanted

    def accept(self, status: int, headers: Mapping[str, str]) -> None:
        """Look at the head of an answer below 400, before its body.

        Raises:
            TransportError: its body is not, or not the rest of, what was asked for.
            PeerError: the landing does not want a body of that size or coding.
        """
        start = self._landing.received
        if status == 206 and start:
            total = self._rest(headers, start)
        elif status == 200 and not start:
            total = _length(headers)
        elif status == 200:
            raise TransportError(
                text("asked for the bytes from {start} on, but the whole body came, or another one", start)
            )
        else:
            raise TransportError(text("expected a body, but the answer was {status}", status))
        etag = headers.get("ETag", "")
        if start and self._etag and etag not in ("", self._etag):
            raise TransportError(text("the body changed while it was transferred"))
        if _STRONG_ETAG.fullmatch(etag):
            self._etag = etag
        coding = headers.get("Content-Encoding", "").strip().lower()
        self._landing.expect(total, None if coding in ("", "identity") else coding)

    def _rest(self, headers: Mapping[str, str], start: int) -> int:
        stated = headers.get("Content-Range", "")
        match = _CONTENT_RANGE.fullmatch(stated)
        first, last, total = map(int, match.groups()) if match else (0, 0, 0)
        if first != start or last + 1 != total or last < first:
            raise TransportError(
                text("asked for the bytes from {start} on, but got {words}", start, f"{stated[:80]!a}")
            )
        return total


def _length(headers: Mapping[str, str]) -> int:
    stated = headers.get("Content-Length", "")
    if not _LENGTH.fullmatch(stated):
        raise TransportError(text("the answer does not say how large its body is"))
    return int(stated)

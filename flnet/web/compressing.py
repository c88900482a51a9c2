"""Pages and their files compressed for browsers that ask for it; never models, JSON or the stream of events."""

from __future__ import annotations

import gzip

from quart import Response, request

TYPES = frozenset({"text/html", "text/css", "text/javascript", "image/svg+xml"})
SMALLEST_BYTES = 1000  # below, the head of the answer weighs as much
LEVEL = 4  # of 9: beyond, the time grows faster than the size shrinks


async def compress(answer: Response) -> Response:
    """Compress an answer whose kind is one of TYPES, if its caller takes gzip (RFC 9110, section 12.5.3)."""
    if answer.mimetype not in TYPES or "Content-Encoding" in answer.headers:
        return answer
    answer.vary.add("Accept-Encoding")
    if not request.accept_encodings["gzip"]:
        return answer
    body = await answer.get_data(as_text=False)
    if len(body) >= SMALLEST_BYTES:
        answer.set_data(gzip.compress(body, LEVEL, mtime=0))
        answer.headers["Content-Encoding"] = "gzip"
    return answer

"""Answers: JSON out, and every error as {"error": code, "message": words}."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from quart import Quart, Response, request
from werkzeug.exceptions import HTTPException, RequestedRangeNotSatisfiable

from flnet.errors import FlnetError, LocalError
from flnet.transport.base import Reply
from flnet.web.body import BASE_SECONDS, SLOWEST_BYTES_PER_SECOND
from flnet.web.frame import chosen_language
from flnet.web.said import say
from flnet.web.words import ENGLISH

JSON = "application/json"
_log = logging.getLogger("flnet.web")


def json_answer(data: Any, status: int = 200) -> Response:
    """`data` as JSON; NaN and infinity become null."""
    return Response(dumped(data), status, content_type=JSON)


def dumped(data: Any) -> bytes:
    """`data` as JSON; NaN and infinity become null."""
    return orjson.dumps(data)


def reply_answer(reply: Reply) -> Response:
    """A node's reply as it is, with time enough for a slow caller to fetch all of it."""
    answer = Response(reply.body, reply.status, content_type=reply.content_type)
    answer.timeout = BASE_SECONDS + len(reply.body) / SLOWEST_BYTES_PER_SECOND
    return answer


def answer_errors(app: Quart) -> None:
    """Give every error that leaves a route its answer; no traceback ever does."""
    app.register_error_handler(FlnetError, _failed)
    app.register_error_handler(HTTPException, _failed)
    app.register_error_handler(Exception, _failed)


@dataclass(frozen=True)
class Failure:
    """What a caller is told of an error: a status, fields of JSON, and headers."""

    status: int
    fields: Mapping[str, object]
    headers: Mapping[str, str] = field(default_factory=dict)


def failure_of(error: Exception, method: str, path: str) -> Failure:
    """What is told of an error; what is this node's own fault stands in the log afterwards."""
    if isinstance(error, FlnetError):
        if isinstance(error, LocalError):
            _log.error("%s %s: %s", method, path, error, exc_info=error)
        details = error.details()
        seconds = details.get("retryAfter")
        headers = {"Retry-After": str(seconds)} if seconds else {}
        return Failure(error.status, {**details, "error": error.code, "message": error.message}, headers)
    if isinstance(error, HTTPException):
        code = error.name.lower().replace(" ", "_")
        fields = {"error": code, "message": _words(error, method, path)}
        return Failure(error.code or 500, fields, _headers_of(error))
    _log.error("%s %s failed", method, path, exc_info=error)
    words = "an unexpected error; the log of this node says more"
    return Failure(500, {"error": LocalError.code, "message": words})


async def _failed(error: Exception) -> Response:
    failure = failure_of(error, request.method, request.path)
    is_known = isinstance(error, FlnetError | HTTPException)
    shown = _shown(str(failure.fields["message"])) if is_known else {}
    answer = json_answer({**shown, **failure.fields}, failure.status)
    answer.headers.update(failure.headers)
    return answer


def _headers_of(error: HTTPException) -> Mapping[str, str]:
    if allowed := getattr(error, "valid_methods", None):
        return {"Allow": ", ".join(sorted(allowed))}
    if isinstance(error, RequestedRangeNotSatisfiable):
        return {"Content-Range": f"bytes */{error.length}"}
    return {}


def _shown(words: str) -> dict[str, object]:
    """For a browser whose reader has another language, the words in it beside those for scripts."""
    language = chosen_language()
    if language == ENGLISH or not request.headers.get("Accept", "").startswith("text/html"):
        return {}
    return {"shown": say(language, words).text}


def _words(error: HTTPException, method: str, path: str) -> str:
    """What went wrong, naming what was asked for and what would be right."""
    if error.code == 404:
        return f"there is nothing at {path[:200]!r}"
    if error.code == 405:
        allowed = ", ".join(sorted(getattr(error, "valid_methods", None) or ()))
        return f"{path[:200]!r} takes {allowed or 'other methods'}, not {method[:20]}"
    return error.description or error.name

"""Answers: JSON out, and every error as {"error": code, "message": words}."""

from __future__ import annotations

import logging
from collections.abc import Mapping
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
    return Response(orjson.dumps(data), status, content_type=JSON)


def reply_answer(reply: Reply) -> Response:
    """A node's reply as it is, with time enough for a slow caller to fetch all of it."""
    answer = Response(reply.body, reply.status, content_type=reply.content_type)
    answer.timeout = BASE_SECONDS + len(reply.body) / SLOWEST_BYTES_PER_SECOND
    return answer


def error_answer(status: int, code: str, message: str, details: Mapping[str, object] | None = None) -> Response:
    """An error in the one form that all errors have."""
    return json_answer({**(details or {}), "error": code, "message": message}, status)


def answer_errors(app: Quart) -> None:
    """Give every error that leaves a route its answer; no traceback ever does."""
    app.register_error_handler(FlnetError, _flnet_error)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _unexpected)


async def _flnet_error(error: FlnetError) -> Response:
    if isinstance(error, LocalError):
        _log.error("%s %s: %s", request.method, request.path, error, exc_info=error)
    answer = error_answer(error.status, error.code, error.message, {**_shown(error.message), **error.details()})
    if seconds := error.details().get("retryAfter"):
        answer.headers["Retry-After"] = str(seconds)
    return answer


async def _http_error(error: HTTPException) -> Response:
    status = error.code or 500
    words = _words(error)
    answer = error_answer(status, error.name.lower().replace(" ", "_"), words, _shown(words))
    if allowed := getattr(error, "valid_methods", None):
        answer.headers["Allow"] = ", ".join(sorted(allowed))
    if isinstance(error, RequestedRangeNotSatisfiable):
        answer.headers["Content-Range"] = f"bytes */{error.length}"
    return answer


async def _unexpected(error: Exception) -> Response:
    _log.error("%s %s failed", request.method, request.path, exc_info=error)
    return error_answer(500, LocalError.code, "an unexpected error; the log of this node says more")


def _shown(words: str) -> dict[str, object]:
    """For a browser whose reader has another language, the words in it beside those for scripts."""
    language = chosen_language()
    if language == ENGLISH or not request.headers.get("Accept", "").startswith("text/html"):
        return {}
    return {"shown": say(language, words).text}


def _words(error: HTTPException) -> str:
    """What went wrong, naming what was asked for and what would be right."""
    if error.code == 404:
        return f"there is nothing at {request.path[:200]!r}"
    if error.code == 405:
        allowed = ", ".join(sorted(getattr(error, "valid_methods", None) or ()))
        return f"{request.path[:200]!r} takes {allowed or 'other methods'}, not {request.method[:20]}"
    return error.description or error.name

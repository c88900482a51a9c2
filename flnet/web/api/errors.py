"""Answers to errors: every error becomes {"error": code, "message": words}, and no traceback leaves the node."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pydantic import BaseModel, Field
from quart import Quart, Response, g, request
from werkzeug.exceptions import HTTPException, RequestedRangeNotSatisfiable

from flnet.errors import FlnetError, LocalError
from flnet.text import Text, code_of, text
from flnet.web.auth.permissions import Who
from flnet.web.routes import json_answer
from flnet.web.translation import ENGLISH, request_language, translate_sentence

_log = logging.getLogger("flnet.web")


def answer_errors(app: Quart) -> None:
    """Answer every error that leaves a route."""
    app.register_error_handler(FlnetError, _failed)
    app.register_error_handler(HTTPException, _failed)
    app.register_error_handler(Exception, _failed)


class ErrorView(BaseModel):
    """An error. All errors have this form."""

    error: str = Field(description="a code that does not change")
    message: str = Field(description="what was expected and what was received")


async def _failed(error: Exception) -> Response:
    """The answer to an error; what is this node's own fault is logged."""
    if isinstance(error, FlnetError):
        if isinstance(error, LocalError):
            _log.error("%s %s: %s", request.method, request.path, error, exc_info=error)
        details = {**_shown(error.message), **_coded(error.message), **error.details()}
        answer = json_answer({**details, "error": error.code, "message": error.message}, error.status)
        if seconds := details.get("retryAfter"):
            answer.headers["Retry-After"] = str(seconds)
        return answer
    if isinstance(error, HTTPException):
        code, words = error.name.lower().replace(" ", "_"), _words(error, request.method, request.path)
        details = {**_shown(words), **_coded(words)}
        answer = json_answer({**details, "error": code, "message": words}, error.code or 500)
        answer.headers.update(_headers_of(error))
        return answer
    _log.error("%s %s failed", request.method, request.path, exc_info=error)
    return json_answer(
        {"error": LocalError.code, "message": text("an unexpected error; the log of this node says more")}, 500
    )


def _headers_of(error: HTTPException) -> Mapping[str, str]:
    if allowed := getattr(error, "valid_methods", None):
        return {"Allow": ", ".join(sorted(allowed))}
    if isinstance(error, RequestedRangeNotSatisfiable):
        return {"Content-Range": f"bytes */{error.length}"}
    return {}


def _shown(words: str) -> dict[str, object]:
    """The translated message, in addition to the English one, for a browser in another language."""
    language = request_language()
    if language == ENGLISH or not request.headers.get("Accept", "").startswith("text/html"):
        return {}
    return {"shown": translate_sentence(language, words).text}


def _coded(words: str) -> dict[str, object]:
    """The code of a message, for another node: it shows the message as a node's, in the language of its reader."""
    return {"text": code_of(words)} if g.get("who") is Who.NODES and isinstance(words, Text) else {}


def _words(error: HTTPException, method: str, path: str) -> str:
    """The message of an HTTP error, with what was requested and what is expected."""
    if error.code == 404:
        return text("there is nothing at {path}", repr(path[:200]))
    if error.code == 405:
        allowed = ", ".join(sorted(getattr(error, "valid_methods", None) or ()))
        return text(
            "{path} takes {known}, not {method}", repr(path[:200]), allowed or text("other methods"), method[:20]
        )
    return error.description or error.name

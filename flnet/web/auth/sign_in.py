"""/sign-in and /sign-out: a person shows the operator's token once, and the browser keeps a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quart import Response, redirect, render_template, request

from flnet.web.auth.permissions import SESSION_SECONDS, Role, Who, permissions, too_many_tokens, wrong_token
from flnet.web.page.frame import local_path
from flnet.web.routes import Pages

pages = Pages()


@pages.get("/sign-in", Who.PUBLIC)
async def ask() -> Response:
    """The form for the operator's token."""
    return await _form(request.args.get("back", "/"))


@pages.post("/sign-in", Who.PUBLIC)
async def enter(form: Mapping[str, str]) -> Any:
    """Begin a session, if the token is right."""
    back = local_path(form.get("back", "/"))
    match permissions().try_token(form.get("token", "").strip()):
        case Role.TOKEN:
            return _with_session(redirect(back, 303))
        case Role.TOO_MANY_TOKENS:
            refusal = too_many_tokens()
            answer = await _form(back, refusal.message, refusal.status)
            answer.headers["Retry-After"] = str(refusal.retry_after)
            return answer
    refused = wrong_token()
    return await _form(back, refused.message, refused.status)


@pages.post("/sign-out", Who.PUBLIC)
async def leave(form: Mapping[str, str]) -> Any:
    """End the session of the browser."""
    permissions().sessions.end(request.cookies.get(permissions().cookie, ""))
    answer = redirect("/", 303)
    answer.delete_cookie(permissions().cookie, secure=request.is_secure, httponly=True, samesite="Strict")
    return answer


async def _form(back: str, fault: str = "", status: int = 200) -> Response:
    html = await render_template("sign_in.html", back=local_path(back), fault=fault)
    return Response(html, status, content_type="text/html; charset=utf-8")


def _with_session(answer: Any) -> Any:
    """The answer with a new session for the browser: the cookie is never the token, nor a value that it sent."""
    permissions().sessions.end(request.cookies.get(permissions().cookie, ""))
    answer.set_cookie(
        permissions().cookie,
        permissions().sessions.begin(),
        max_age=int(SESSION_SECONDS),
        secure=request.is_secure,
        httponly=True,
        samesite="Strict",
    )
    return answer

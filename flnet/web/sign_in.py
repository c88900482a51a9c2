"""/sign-in and /sign-out: a person shows the operator's token once, and the browser keeps a session."""

from __future__ import annotations

from typing import Any

from quart import Blueprint, Response, redirect, render_template, request

from flnet.web.frame import local_path
from flnet.web.page import read_form
from flnet.web.sessions import SECONDS
from flnet.web.standing import Standing, gate, too_many_tokens, wrong_token


def sign_in_routes() -> Blueprint:
    """The form, what it does, and the way out."""
    routes = Blueprint("sign_in", __name__)

    @routes.get("/sign-in")
    async def ask() -> Response:
        return await _form(request.args.get("back", "/"))

    @routes.post("/sign-in")
    async def enter() -> Any:
        fields = await read_form()
        back = local_path(fields.get("back", "/"))
        match gate().try_token(fields.get("token", "").strip()):
            case Standing.TOKEN:
                return _with_session(redirect(back, 303))
            case Standing.TOO_MANY:
                refusal = too_many_tokens()
                answer = await _form(back, refusal.message, refusal.status)
                answer.headers["Retry-After"] = str(refusal.retry_after)
                return answer
        refused = wrong_token()
        return await _form(back, refused.message, refused.status)

    @routes.post("/sign-out")
    async def leave() -> Any:
        await read_form()
        gate().sessions.end(request.cookies.get(gate().cookie, ""))
        answer = redirect("/", 303)
        answer.delete_cookie(gate().cookie, secure=request.is_secure, httponly=True, samesite="Strict")
        return answer

    return routes


async def _form(back: str, fault: str = "", status: int = 200) -> Response:
    html = await render_template("sign_in.html", back=local_path(back), fault=fault)
    return Response(html, status, content_type="text/html; charset=utf-8")


def _with_session(answer: Any) -> Any:
    """The answer, with a session of its own for the browser: never the token, and no value that it brought."""
    gate().sessions.end(request.cookies.get(gate().cookie, ""))
    answer.set_cookie(
        gate().cookie,
        gate().sessions.begin(),
        max_age=int(SECONDS),
        secure=request.is_secure,
        httponly=True,
        samesite="Strict",
    )
    return answer

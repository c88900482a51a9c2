"""What all pages have in common: navigation, language, light or dark, files, and their part for live updates."""

from __future__ import annotations

import hashlib
from functools import partial
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs

from markupsafe import Markup
from quart import Blueprint, Response, current_app, redirect, render_template, request
from werkzeug.exceptions import NotFound

from flnet import __version__
from flnet.names import hostport
from flnet.node.base import Node
from flnet.settings import Settings
from flnet.web.body import read_body
from flnet.web.mesh_mode import mesh_mode
from flnet.web.said import shown
from flnet.web.standing import Standing, gate, may_act
from flnet.web.words import ENGLISH, LANGUAGES, Translate, translator

THEMES = ("auto", "light", "dark")
LANGUAGE_COOKIE, THEME_COOKIE = "flnet_language", "flnet_theme"
KEPT_SECONDS = 365 * 24 * 3600
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Path and name of the pages in the header; those that are not there are left out.
NAVIGATION = (
    ("/", "Overview"),
    ("/view/models", "Models"),
    ("/view/predict", "Prediction"),
    ("/view/data", "Data"),
    ("/view/keys", "Keys"),
    ("/view/settings", "Settings"),
    ("/view/api", "API"),
)


def frame_routes(node: Node, settings: Settings) -> Blueprint:
    """The files of the pages, the choice of language and theme, and what every template may use."""
    routes = Blueprint("frame", __name__)
    served, version = _load_files()

    @routes.app_context_processor
    def common() -> dict[str, Any]:
        return {
            "t": language_of_request(),
            "language": chosen_language(),
            "said": partial(shown, chosen_language()),
            "languages": LANGUAGES,
            "theme": chosen_theme(),
            "themes": THEMES,
            "fragment": is_fragment(),
            "navigation": _navigation(),
            "here": request.path,
            "web": f"/web/{version}/".__add__,
            "me": node.me.id,
            "may_act": may_act(),
            "signed_in": gate().standing() is Standing.SESSION,
            "waiting_count": len(node.trust.pending()) if node.trust is not None and may_act() else 0,
            "locked": Markup("") if may_act() else Markup(" disabled"),
            "address": _own_address(node, settings),
            "version": __version__,
            "mesh": mesh_mode(settings.mode),
        }

    @routes.post("/look")
    async def look() -> Any:
        fields = {
            name: values[0] for name, values in parse_qs((await read_body()).decode(errors="replace")).items()
        }
        answer = redirect(local_path(fields.get("back", "/")), 303)
        for cookie, name, allowed in ((LANGUAGE_COOKIE, "language", LANGUAGES), (THEME_COOKIE, "theme", THEMES)):
            if (value := fields.get(name, "")) in allowed:
                answer.set_cookie(cookie, value, max_age=KEPT_SECONDS, httponly=True, samesite="Lax")
        return answer

    @routes.get("/web/<name>", defaults={"stated": ""})
    @routes.get("/web/<stated>/<name>")
    async def file(stated: str, name: str) -> Response:
        if name not in served:
            raise NotFound
        answer = Response(served[name], content_type=TYPES[name[name.rindex(".") :]])
        lasting = stated == version  # another version's file must not be kept under this name
        answer.headers["Cache-Control"] = "public, max-age=31536000, immutable" if lasting else "no-cache"
        return answer

    return routes


async def render_page(template: str, **shown: Any) -> Response:
    """A page, or its <main> alone for ?fragment=main; a caller that has just this already is told so (304)."""
    html = await render_template(template, **shown)
    tag = f'"{hashlib.sha256(html.encode()).hexdigest()[:24]}"'
    answer = Response("", 304) if request.headers.get("If-None-Match") == tag else Response(html)
    answer.content_type = "text/html; charset=utf-8"
    answer.headers["ETag"] = tag
    return answer


def chosen_language() -> str:
    """What the caller chose here before, or else what its browser prefers."""
    chosen = request.cookies.get(LANGUAGE_COOKIE)
    if chosen in LANGUAGES:
        return chosen
    preferred = (name.split("-")[0].lower() for name in request.accept_languages.values())  # the best first
    return next((name for name in preferred if name in LANGUAGES), ENGLISH)


def language_of_request() -> Translate:
    """Says texts in the caller's language."""
    return translator(chosen_language())


def chosen_theme() -> str:
    """One of THEMES."""
    chosen = request.cookies.get(THEME_COOKIE, "")
    return chosen if chosen in THEMES else THEMES[0]


def is_fragment() -> bool:
    """Whether only the <main> is asked for."""
    return request.args.get("fragment") == "main"


def _navigation() -> list[tuple[str, str]]:
    there = {rule.rule for rule in current_app.url_map.iter_rules()}
    return [(path, name) for path, name in NAVIGATION if path in there]


def local_path(path: str) -> str:
    """A path on this node; the first page for anything that could lead elsewhere."""
    plain = path.startswith("/") and path.isascii() and path.isprintable() and len(path) <= 500
    return path if plain and path[1:2] not in ("/", "\\") else "/"


def _load_files() -> tuple[dict[str, bytes], str]:
    """The files of the pages, and a version that changes with them."""
    folder = files("flnet_resources") / "web"
    found = sorted(folder.iterdir(), key=lambda entry: entry.name)
    served = {entry.name: entry.read_bytes() for entry in found if entry.name.endswith(tuple(TYPES))}
    return served, hashlib.sha256(b"\0".join(served.values())).hexdigest()[:12]


def _own_address(node: Node, settings: Settings) -> str:
    host = node.me.ip or settings.listen_address
    return hostport(host, node.me.port)

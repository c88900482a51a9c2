"""The frame of all pages: navigation, language, colours, static files, notices and errors."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import Any, cast
from urllib.parse import quote

from markupsafe import Markup
from quart import Blueprint, Quart, Response, current_app, redirect, render_template, request
from werkzeug.exceptions import HTTPException, NotFound

from flnet import __version__
from flnet.errors import FlnetError, LocalError
from flnet.names import hostport
from flnet.node.interface import Node
from flnet.settings import Settings
from flnet.text import text
from flnet.web.auth.permissions import Role, Who, may_act, permissions
from flnet.web.charts import PAGE_LOOK, svg_of
from flnet.web.formatting import accuracy, one_line
from flnet.web.routes import Pages
from flnet.web.translation import LANGUAGE_COOKIE, LANGUAGES, request_language, sentence_markup, translate_markup

pages = Pages()
_log = logging.getLogger("flnet.web")
THEMES = ("auto", "light", "dark")
THEME_COOKIE = "flnet_theme"
KEPT_SECONDS = 365 * 24 * 3600
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
NAVIGATION = (  # path and name of the pages in the header
    ("/", text("Overview")),
    ("/view/models", text("Models")),
    ("/view/predict", text("Prediction")),
    ("/view/data", text("Data")),
    ("/view/keys", text("Keys")),
    ("/view/settings", text("Settings")),
    ("/view/api", text("API")),
)
VIEWS_OF_TRAINERS = ("models", "predict", "rounds")  # each shows one trainer at a time


@dataclass(frozen=True)
class MeshMode:
    """How the nodes of a mesh know each other, in words for every page.

    Attributes:
        name: as it stands on the badge.
        chip: the class of the badge.
        means: who may take part.
        hides: what others on the network can read.
    """

    name: str
    chip: str
    means: str
    hides: str


MODES: Mapping[str, MeshMode] = {
    "open": MeshMode(
        text("open mesh"),
        "warn",
        text(
            "Every node that reaches this one may take part, under any free name. Use this mode on one "
            "machine, or in a network in which you trust everybody."
        ),
        text("What nodes say to each other is neither signed nor encrypted."),
    ),
    "keyed": MeshMode(
        text("mesh with a key"),
        "calm",
        text("Nodes that know the common secret take part. All others are refused."),
        text("What nodes say to each other is signed but not encrypted."),
    ),
    "changing": MeshMode(
        text("mesh with two keys"),
        "warn",
        text(
            "Nodes that know one of two common secrets take part, while the secret is being changed. Remove the "
            "old one when all nodes sign with the new one."
        ),
        text("What nodes say to each other is signed but not encrypted."),
    ),
    "pinned": MeshMode(
        text("pinned mesh"),
        "calm",
        text(
            "Nodes take part whose fingerprints a person accepted, here or at a node that may "
            "introduce others. All others wait."
        ),
        text("What nodes say to each other is encrypted, and signed by each with its own key."),
    ),
}


def install(app: Quart, node: Node, settings: Settings) -> None:
    """Give every template of the app what all pages show."""
    app.jinja_env.filters.update(accuracy=accuracy, line=one_line, drawn=partial(svg_of, look=PAGE_LOOK))

    @app.context_processor
    def common() -> dict[str, Any]:
        return {
            "_": partial(translate_markup, request_language()),
            "language": request_language(),
            "sentence": partial(sentence_markup, request_language()),
            "languages": LANGUAGES,
            "theme": chosen_theme(),
            "themes": THEMES,
            "fragment": is_fragment(),
            "navigation": NAVIGATION,
            "here": request.path,
            "web": f"/web/{_files()[1]}/".__add__,
            "me": node.me.id,
            "name": node.machine or node.me.id,
            "may_act": may_act(),
            "signed_in": permissions().role() is Role.SESSION,
            "waiting_count": len(node.trust.pending()) if node.trust is not None and may_act() else 0,
            "locked": Markup("") if may_act() else Markup(" disabled"),
            "address": _own_address(node, settings),
            "version": __version__,
            "mesh": MODES["changing" if settings.accepts_other_mesh_key else settings.mode],
        }


@pages.post("/look", Who.PUBLIC)
async def look(form: Mapping[str, str]) -> Any:
    """Keep the language and the colours that the caller chose."""
    answer = redirect(local_path(form.get("back", "/")), 303)
    for cookie, name, allowed in ((LANGUAGE_COOKIE, "language", LANGUAGES), (THEME_COOKIE, "theme", THEMES)):
        if (value := form.get(name, "")) in allowed:
            answer.set_cookie(cookie, value, max_age=KEPT_SECONDS, httponly=True, samesite="Lax")
    return answer


@pages.get("/web/<name>", Who.PUBLIC)
@pages.get("/web/<stated>/<name>", Who.PUBLIC)
async def file(name: str, stated: str = "") -> Response:
    """A file of the pages; under its version it may be kept for ever."""
    served, version = _files()
    if name not in served:
        raise NotFound
    answer = Response(served[name], content_type=TYPES[name[name.rindex(".") :]])
    lasting = stated == version  # another version's file must not be kept under this name
    answer.headers["Cache-Control"] = "public, max-age=31536000, immutable" if lasting else "no-cache"
    return answer


async def render_page(template: str, **shown: Any) -> Response:
    """A page, or its <main> alone for ?fragment=main; a caller that has just this already is told so (304)."""
    html = await render_template(template, **shown)
    tag = f'"{hashlib.sha256(html.encode()).hexdigest()[:24]}"'
    answer = Response("", 304) if request.headers.get("If-None-Match") == tag else Response(html)
    answer.content_type = "text/html; charset=utf-8"
    answer.headers["ETag"] = tag
    return answer


async def show(template: str, status: int = 200, **shown: Any) -> Response:
    """A rendered template."""
    page = await render_template(template, **shown)
    return Response(page, status, content_type="text/html; charset=utf-8")


async def show_fault(node: Node, words: str, status: int) -> Response:
    """A page that says in one sentence what went wrong."""
    view = next(
        (view for view in VIEWS_OF_TRAINERS if request.path.startswith(f"/view/{view}")), VIEWS_OF_TRAINERS[0]
    )
    return await show("fault.html", status, words=one_line(words, 500), choices=choices(node, view, ""))


def answer_errors(views: Blueprint, node: Node) -> None:
    """Show errors of views as pages."""

    async def known_error(error: FlnetError) -> Response:
        if isinstance(error, LocalError):
            _log.error("%s %s: %s", request.method, request.path, error, exc_info=error)
        return await show_fault(node, error.message, error.status)

    async def refused(error: HTTPException) -> Response:
        return await show_fault(node, error.description or error.name, error.code or 500)

    views.register_error_handler(FlnetError, known_error)
    views.register_error_handler(HTTPException, refused)


@dataclass(frozen=True)
class Choice:
    """One trainer that a view can be about."""

    id: str
    label: str
    url: str
    chosen: bool


def view_url(view: str, trainer: str) -> str:
    """The address of a view of one trainer."""
    return f"/view/{view}/{quote(trainer, safe='')}"


def choices(node: Node, view: str, trainer: str) -> Sequence[Choice]:
    """This node's trainers, with the links to their views; `trainer` is the one that is shown."""
    return [
        Choice(job.trainer_id, job.label, view_url(view, job.trainer_id), job.trainer_id == trainer)
        for job in node.all_jobs()
    ]


async def redirect_to_first(node: Node, view: str) -> Any:
    """Redirect a view without a trainer to that of the first trainer that has data."""
    jobs = node.all_jobs()
    if not jobs:
        return await show_fault(node, text("This node has no trainer."), 404)
    job = next((job for job in jobs if job.has_data), jobs[0])
    return redirect(view_url(view, job.trainer_id), 303)


@dataclass(frozen=True)
class Notice:
    """One sentence for the person who pressed a button, shown once on the next page."""

    text: str
    is_error: bool


class Notices:
    """The last notices, by keys that cannot be guessed, so that no link can put text on this page."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._kept: OrderedDict[str, Notice] = OrderedDict()

    def put(self, notice: Notice) -> str:
        """Keep a notice; the key to find it by."""
        key = secrets.token_urlsafe(9)
        self._kept[key] = notice
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return key

    def get(self, key: str | None) -> Notice | None:
        """The notice of this key, if it is still kept."""
        return self._kept.get(key or "")


def notices() -> Notices:
    """The notices of the current app; a form may lead to another page than its own."""
    return cast(Notices, current_app.extensions.setdefault("flnet.notices", Notices()))


async def redirect_with_notice(outcome: Awaitable[str], place: str, part: str = "") -> Any:
    """Do what a form asks for, and lead to a page that tells what came of it.

    Args:
        outcome: does it and says in a sentence what came of it; a refusal is told in its own words.
        place: path of the page.
        part: of the page, as in "#part"; empty for its beginning.
    """
    try:
        notice = Notice(await outcome, is_error=False)
    except FlnetError as error:
        notice = Notice(error.message, is_error=True)
    return redirect(f"{place}?notice={notices().put(notice)}{part}", 303)


def chosen_theme() -> str:
    """One of THEMES."""
    chosen = request.cookies.get(THEME_COOKIE, "")
    return chosen if chosen in THEMES else THEMES[0]


def is_fragment() -> bool:
    """Whether only the <main> is asked for."""
    return request.args.get("fragment") == "main"


def local_path(path: str) -> str:
    """A path on this node; the first page for anything that could lead elsewhere."""
    plain = path.startswith("/") and path.isascii() and path.isprintable() and len(path) <= 500
    return path if plain and path[1:2] not in ("/", "\\") else "/"


@cache
def _files() -> tuple[dict[str, bytes], str]:
    """The files of the pages, and a version that changes with them."""
    folder = files("flnet_resources") / "web"
    entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    served = {entry.name: entry.read_bytes() for entry in entries if entry.name.endswith(tuple(TYPES))}
    return served, hashlib.sha256(b"\0".join(served.values())).hexdigest()[:12]


def _own_address(node: Node, settings: Settings) -> str:
    host = node.me.ip or settings.listen_address
    return hostport(host, node.me.port)

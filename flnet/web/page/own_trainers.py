"""The page on which a person turns data into a trainer: what came is guessed and shown, and the person corrects it.

It also takes over trainers that other nodes show; those stand on the page of the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args
from urllib.parse import quote

from quart import Response, redirect

from flnet.datasets.guess import MOST_WORDS, Choices, Column, ImagesGuess, TableGuess, Use, listing_of, words_in
from flnet.errors import FlnetError, ImportRefused, InvalidMessage
from flnet.node.interface import Node
from flnet.node.own_trainers import Draft, Offer
from flnet.settings import Settings
from flnet.text import text
from flnet.web.api.data_import import import_body
from flnet.web.api.own_trainers import files_from_request, taken_from_request
from flnet.web.auth.permissions import Who
from flnet.web.formatting import one_line
from flnet.web.page.frame import Notice, notices, redirect_with_notice, show
from flnet.web.routes import Pages
from flnet.web.translation import request_translator

pages = Pages()
DATA = "/view/data"
NEW = f"{DATA}/new"
USES: tuple[Use, ...] = tuple(use for use in get_args(Use) if use != "target")
_SHOWN_WORDS = 6  # of a column


@dataclass(frozen=True)
class ColumnRow:
    """One column in the form; `use` is what is chosen, `words` the list of its words, empty for numbers."""

    field: str
    name: str
    use: Use
    values: str
    words: str
    missing: int
    odd: str


@dataclass(frozen=True)
class OfferCard:
    """A trainer of another node, as the page shows it."""

    peer: str
    name: str
    label: str
    digest: str
    lines: str
    is_table: bool


@pages.post(NEW, body=import_body)
async def look_at(node: Node) -> Any:
    """Take data in, and lead to what they seem to be."""
    try:
        files = await files_from_request(node)
        if files.upload is None:
            raise ImportRefused(text("no files came; choose a file, a folder, or a .zip or .tar archive"))
        draft = await node.own_trainers.look(files.upload)
    except FlnetError as error:
        key = notices().put(Notice(error.message, is_error=True))
        return redirect(f"{DATA}?notice={key}#new", 303)
    return redirect(f"{NEW}/{draft.key}", 303)


@pages.get(f"{NEW}/<key>", Who.OPERATOR)
async def ask(node: Node, key: str) -> Response:
    """What the data seem to be, as a form."""
    return await _show(node.own_trainers.draft(key), {})


@pages.post(f"{NEW}/<key>")
async def make(node: Node, settings: Settings, key: str, form: Mapping[str, str]) -> Any:
    """Make the trainer as the person wants it."""
    draft = node.own_trainers.draft(key)
    t = request_translator()
    try:
        choices = choices_of(draft, form)
        name = await node.own_trainers.make(key, form.get("name", "").strip(), choices, offered="offered" in form)
    except FlnetError as error:
        return await _show(draft, form, error)
    words = t("{trainer} was made. It is loading, and can then be trained.", trainer=name)
    return _to_overview(words, settings)


@pages.post(f"{DATA}/offers", body=import_body)
async def take_over(node: Node, settings: Settings) -> Any:
    """Take over a trainer of another node, with data of this one."""
    t = request_translator()

    async def taken() -> str:
        trainer, peer = await taken_from_request(node)
        words = t("{trainer} was taken over from {peer}.", trainer=trainer, peer=one_line(peer, 64))
        return f"{words} {restart_words(settings)}".strip()

    return await redirect_with_notice(taken(), "/")


def restart_words(settings: Settings) -> str:
    """What a person has to know before this node is started again; empty if that is nothing."""
    if not settings.trainers:
        return ""
    t = request_translator()
    return t("FLNET_TRAINERS names the trainers of this node: add it there before the next start.")


def offer_card(offer: Offer) -> OfferCard:
    """A trainer of another node in words."""
    return OfferCard(
        one_line(offer.peer, 64),
        offer.name,
        one_line(offer.own.label or offer.name, 100),
        offer.digest,
        offer.lines.strip(),
        offer.own.kind == "table",
    )


def choices_of(draft: Draft, form: Mapping[str, str]) -> Choices:
    """What the person chose.

    Raises:
        InvalidMessage: a field has another value than the form offers.
    """
    uses: dict[str, Use] = {}
    words: dict[str, tuple[str, ...]] = {}
    target = ""
    if isinstance(draft.guess, TableGuess):
        target = form.get("target", "")
        for place, column in enumerate(draft.guess.columns):
            use = form.get(f"use-{place}", "")
            words[str(place)] = words_in(form.get(f"words-{place}", ""))
            if column.name == target or not use:
                continue
            if use not in USES:
                raise InvalidMessage(text("{field} is {value}; expected one of {expected}", *_wrong(place, use)))
            uses[str(place)] = use
    size = form.get("size", "")
    if size and not (size.isascii() and size.isdigit() and len(size) <= 4):
        raise InvalidMessage(text("the size is {value}; expected a number of pixels", repr(size[:20])))
    return Choices(
        target,
        uses,
        {place: listed for place, listed in words.items() if listed},
        cast(Any, _one_of(form, "missing", ("", "stop", "skip", "mean"))),
        cast(Any, _one_of(form, "scaling", ("own", "common"))),
        _one_of(form, "model", ("", "linear", "mlp", "small-cnn")),
        form.get("label", "").strip()[:100],
        int(size) if size else None,
        cast(Any, _one_of(form, "colour", ("", "grey", "rgb"))),
    )


def _wrong(place: int, use: str) -> tuple[str, str, str]:
    return f"use-{place}", repr(use[:20]), ", ".join(USES)


def _one_of(form: Mapping[str, str], field: str, allowed: Sequence[str]) -> str:
    value = form.get(field, allowed[0])
    if value not in allowed:
        raise InvalidMessage(
            text("{field} is {value}; expected one of {expected}", field, repr(value[:20]), ", ".join(allowed))
        )
    return value


def _to_overview(words: str, settings: Settings) -> Any:
    key = notices().put(Notice(f"{words} {restart_words(settings)}".strip(), is_error=False))
    return redirect(f"/?notice={quote(key)}", 303)


async def _show(draft: Draft, form: Mapping[str, str], fault: FlnetError | None = None) -> Response:
    guessed = draft.guess
    table = guessed if isinstance(guessed, TableGuess) else None
    images = guessed if isinstance(guessed, ImagesGuess) else None
    return await show(
        "own_trainers.html",
        fault.status if fault else 200,
        draft=draft,
        file=one_line(draft.file, 200),
        table=table,
        images=images,
        columns=[] if table is None else [_row(place, column, form) for place, column in enumerate(table.columns)],
        target=form.get("target") or (table.target.name if table else ""),
        lacks=table is not None and any(column.missing for column in table.columns if column.use != "ignore"),
        form=form,
        is_first=not form,
        fault=one_line(fault.message, 500) if fault else "",
    )


def _row(place: int, column: Column, form: Mapping[str, str]) -> ColumnRow:
    usual: Use = "words" if column.kind == "words" else "number"
    given = form.get(f"use-{place}", "")
    use = given if given in USES else usual if column.use == "target" else column.use
    return ColumnRow(
        f"use-{place}",
        one_line(column.name, 80),
        use,
        _values(column),
        form.get(f"words-{place}") or (listing_of(column.words) if column.kind == "words" else ""),
        column.missing,
        ", ".join(one_line(word, 30) for word in column.odd[:_SHOWN_WORDS]),
    )


def _values(column: Column) -> str:
    if column.kind == "number" and column.scale is not None:
        return f"{column.scale[0]:g} ± {column.scale[1]:g}"
    words = ", ".join(one_line(word, 30) for word in column.words[:_SHOWN_WORDS])
    hidden = len(column.words) - _SHOWN_WORDS
    return (
        f"{words}, ... ({MOST_WORDS if len(column.words) >= MOST_WORDS else len(column.words)})"
        if hidden > 0
        else words
    )

"""The page for predictions of a vertical job: ids of people whom all holders know, and what each label holder predicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quart import Response

from flnet.errors import FlnetError, InputRefused
from flnet.node.interface import Node, View
from flnet.params.params import TrainerId
from flnet.text import text
from flnet.web.formatting import one_line
from flnet.web.page.frame import choices, show

UNKNOWN_SHOWN = 20


@dataclass(frozen=True)
class IdRow:
    """The prediction for one id; `chance` is the largest probability, in words."""

    id: str
    predicted: str
    chance: str


@dataclass(frozen=True)
class HolderResult:
    """What a label holder predicts."""

    holder: str
    rows: tuple[IdRow, ...]


@dataclass(frozen=True)
class IdsResult:
    """The predictions for the ids of a form.

    Attributes:
        unknown: ids that not all holders have, as they are shown.
        hidden: how many more of them there are.
    """

    holders: tuple[HolderResult, ...]
    epoch: int
    unknown: str
    hidden: int


def ids_of(pasted: str) -> list[str]:
    """The ids in a field of a form, one a line.

    Raises:
        InputRefused: there are none.
    """
    ids = [line.strip() for line in pasted.splitlines() if line.strip()]
    if not ids:
        raise InputRefused(text("there is no id yet: write one a line"))
    return ids


def ids_result(answer: View) -> IdsResult:
    """The predictions of a node in words."""
    unknown: Sequence[str] = answer["unknown"]
    return IdsResult(
        tuple(_of_holder(made, answer["ids"]) for made in answer["predictions"]),
        answer["epoch"],
        ", ".join(one_line(name, 60) for name in unknown[:UNKNOWN_SHOWN]),
        max(0, len(unknown) - UNKNOWN_SHOWN),
    )


def _of_holder(made: View, ids: Sequence[str]) -> HolderResult:
    rows = zip(ids, made["predicted"], made["probabilities"], strict=True)
    return HolderResult(one_line(made["holder"], 64), tuple(_row(*row) for row in rows))


def _row(name: str, predicted: str | Sequence[str], values: Sequence[float]) -> IdRow:
    classes = [predicted] if isinstance(predicted, str) else predicted
    words = ", ".join(one_line(each, 60) for each in classes)
    return IdRow(one_line(name, 60), words, f"{100 * max(values, default=0):.1f} %")


async def show_ids(
    node: Node,
    trainer: TrainerId,
    pasted: str,
    *,
    result: IdsResult | None = None,
    fault: FlnetError | None = None,
) -> Response:
    """The form for ids, with what was written into it, and what came of it."""
    job = node.job(trainer)
    return await show(
        "predict_ids.html",
        fault.status if fault else 200,
        job=job,
        ids=pasted,
        result=result,
        fault=one_line(fault.message, 500) if fault else "",
        choices=choices(node, "predict", trainer),
    )

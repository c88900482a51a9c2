"""A model's card: what it is, what it was trained on here, how good it is, and how to load it; in Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import flnet
from flnet.events import Declaration
from flnet.fingerprints import short
from flnet.node.shelf import Chosen

MOST_ROUNDS = 100  # that a card tells of, the newest before the model's own
_FOLDERS = re.compile(r"(?:[A-Za-z]:)?[/\\](?:[^/\\\s]+[/\\])+")  # a card travels; where data lie here does not
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|!~])")


def card(chosen: Chosen, declared: Declaration, history: Sequence[Mapping[str, Any]], file: str) -> str:
    """The card of one model.

    Args:
        history: records of the job's newest rounds, oldest first; those up to the model's own are told of.
        file: name of the model's safetensors file.
    """
    sections = [
        _head(chosen, declared),
        _data(chosen, declared),
        _contributions(chosen),
        _rounds([record for record in history if record["round"] <= chosen.figures["round"]]),
        _loading(file),
    ]
    return "\n".join(line for section in sections for line in section) + "\n"


def _head(chosen: Chosen, declared: Declaration) -> list[str]:
    figures, record = chosen.figures, chosen.figures["record"] or {}
    round = figures["round"]
    hyper = ", ".join(f"{name} = {value:g}" for name, value in figures["hyper"].items())
    note = declared.offers.get("note")
    return [
        f"# {_plain(declared.label)}, {'untrained' if round < 0 else f'round {round}'}",
        "",
        *([f"**{_plain(note)}**", ""] if note else []),
        "| | |",
        "| --- | --- |",
        f"| trainer | `{chosen.trainer}` |",
        f"| digest | `{chosen.digest}` |",
        f"| schema | `{figures['schema_digest']}` |",
        f"| averaged from | {_contributors(figures, record)} |",
        f"| accuracy before averaging | {_accuracy(record.get('pre_fedavg_accuracy'))} |",
        f"| accuracy after averaging | {_accuracy(record.get('post_fedavg_accuracy'))} |",
        f"| accuracy of this model | {_accuracy(figures['accuracy'])} |",
        f"| hyper-parameters | {hyper or 'this node did not train in this round'} |",
        f"| parameters | {sum(value.size for value in chosen.full.values()):,} in {len(chosen.full)} arrays |",
        f"| private parameters | {', '.join(f'`{name}`' for name in figures['private']) or 'none'} |",
        f"| licence | {_plain(declared.offers.get('licence') or 'not stated')} |",
        f"| made by | flnet {flnet.__version__} |",
        "",
        "Accuracies are in [0, 1], on the test split of the node that wrote this card.",
        "",
    ]


def _data(chosen: Chosen, declared: Declaration) -> list[str]:
    data, counts = declared.data, declared.offers.get("counts") or {}
    rows, classes = chosen.figures["rows"], chosen.figures["classes"]
    source = _plain(_FOLDERS.sub("", str(data.get("source", "")))) or "not described"
    lines = ["## Data of this node", "", ("Generated sample data: " if data.get("sample") else "") + source, ""]
    columns = [_plain(name) for name in classes] if counts else []
    lines += [_row(["split", "rows", *columns]), _row(["---"] * (2 + len(columns)))]
    lines += [
        _row([_plain(split), str(number), *map(str, counts.get(split, ()))]) for split, number in rows.items()
    ]
    if classes and not counts:
        lines += ["", f"Classes: {', '.join(_plain(name) for name in classes)}"]
    return [*lines, "", "The data of the other nodes are known to those nodes alone.", ""]


def _rounds(history: Sequence[Mapping[str, Any]]) -> list[str]:
    if not history:
        return []
    lines = ["## Rounds that this node took part in", ""]
    lines += [_row(["round", "contributors", "before averaging", "after", "adopted from"]), _row(["---"] * 5)]
    for record in history:
        before, after = _accuracy(record["pre_fedavg_accuracy"]), _accuracy(record["post_fedavg_accuracy"])
        adopted = _plain(record["exchanged_with"] or "")
        lines.append(_row([str(record["round"]), str(len(record["contributors"])), before, after, adopted]))
    return [*lines, ""]


def _contributions(chosen: Chosen) -> list[str]:
    """Who made this model: for people, and as `flnet audit --card` checks it."""
    record = chosen.figures["record"] or {}
    stated = record.get("contributions") or []
    if not stated or record.get("digest") != chosen.digest:
        return []
    weighed = record.get("weighed") or {}
    columns = ["node", "fingerprint of its key", "examples", "weight in the average"]
    lines = ["## Who contributed", "", _row(columns), _row(["---"] * len(columns))]
    for one in stated:
        key = short(one["key"]) if one.get("key") and one.get("signature") else "not signed"
        weight = (weighed.get(one["peer"]) or {}).get("weight")
        share = "not one number" if weight is None else f"{weight:.4f}"
        lines.append(_row([_plain(one["peer"]), key, str(one["examples"]), share]))
    for peer, one in weighed.items():
        if one.get("reason"):
            lines.append(_row([_plain(peer), "", "", f"left out: {_plain(one['reason'])}"]))
    said = {**{name: record[name] for name in ("round", "initiator", "contributions")}, "weighed": weighed}
    whole = json.dumps({"trainer": chosen.trainer, "digest": chosen.digest, **said}, ensure_ascii=True)
    return [*lines, "", "```json", whole, "```", ""]


def _loading(file: str) -> list[str]:
    return [
        "## Loading it",
        "",
        "```python",
        "from safetensors.numpy import load_file",
        f'params = load_file("{file}")',
        "print({name: (array.shape, array.dtype) for name, array in params.items()})",
        "```",
    ]


def _contributors(figures: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    count = figures["contributors"]
    names = ", ".join(_plain(name) for name in record.get("contributors") or ())
    return f"{count} update{'' if count == 1 else 's'}{f' ({names})' if names else ''}"


def _accuracy(value: Any) -> str:
    return "not measured" if value is None else f"{value:.4f}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Text on one line that Markdown shows as it is: peers' names are text, never markup."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in str(text)).split())
    return _MARKUP.sub(r"\\\1", line)

"""Names of aggregation rules as people read them; the command line needs them without numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flnet.text import Text, text

MEANS: Mapping[str, Text] = {
    "agg0": text("plain average (agg0)"),
    "agg1": text("weighted average (agg1)"),
    "agg2": text("average weighted by labels (agg2)"),
}


def rule_text(rule: str) -> Text:
    """A rule with its filters, as part of a sentence: "clip, weighted average (agg1)"."""
    params = {f"part{number}": MEANS.get(part, part) for number, part in enumerate(rule.split(","))}
    return Text(", ".join(f"{{{name}}}" for name in params), params)


def rule_words(rule: str, translate: Callable[[str], str]) -> str:
    """The same for a page, in the reader's language; what has no name for people stays as it is written."""
    return ", ".join(translate(MEANS[part]) if part in MEANS else part for part in rule.split(","))

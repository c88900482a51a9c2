"""Goals of series on the page: what a form asks for, and how far a series is, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flnet.errors import InvalidMessage
from flnet.policies.goal import Condition, Falling, Goal, NoGain, Reach, Within
from flnet.web.view import NONE, accuracy, text
from flnet.web.words import Translate

# The choices of the form: the words of a goal, and the fields whose numbers follow them.
_FORMS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "mean": (("accuracy", ">="), ("least",)),
    "every": (("every", "accuracy", ">="), ("least",)),
    "own": (("own", "accuracy", ">="), ("least",)),
    "gain": (("no-gain",), ("patience", "delta")),
    "mlfedavg": (("mlfedavg",), ()),
    "cumulative": (("mlfedavg", "cumulative"), ()),
}
_ENDS = {"reached": "Goal reached in round {round}", "given_up": "Goal given up in round {round}"}


@dataclass(frozen=True)
class GoalView:
    """A series as the page shows it: what it is for and how far it is, and whether it is under way."""

    words: str
    is_open: bool
    is_reached: bool
    done: int
    rounds: int


def until_of(fields: Mapping[str, str]) -> str:
    """The goal that a form asks for; what is wrong in it is for the node to say."""
    words, numbers = _FORMS.get(fields.get("goal", ""), ((), ()))
    until = " ".join([*words, *(fields.get(name, "").strip()[:40] for name in numbers)])
    minutes = fields.get("minutes", "").strip()[:20]
    return f"{until}, within {_seconds(minutes)}" if minutes else until


def goal_view(goal: Any, t: Translate) -> GoalView | None:
    """What a job tells of its series, which may be anything where a peer tells it."""
    if not isinstance(goal, Mapping) or goal.get("state") not in ("open", *_ENDS):
        return None
    state, done, rounds = goal["state"], _whole(goal.get("done")), _whole(goal.get("rounds"))
    said = [t(_ENDS[state], round=_whole(goal.get("round")))] if state in _ENDS else []
    said.append(t("until {goal}", goal=goal_words(text(goal.get("until"), 200), t)))
    said.append(t("{done} of at most {rounds} rounds", done=done, rounds=rounds))
    if (mean := accuracy(goal.get("accuracy"))) != NONE:
        said.append(t("mean accuracy {accuracy} of {nodes} nodes", accuracy=mean, nodes=_whole(goal.get("nodes"))))
    if (best := accuracy(goal.get("best"))) != NONE:
        said.append(t("the best so far {accuracy}", accuracy=best))
    said.append(t("asked for at {node}", node=text(goal.get("by"), 64)))
    words = "; ".join(said)
    return GoalView(words[:1].upper() + words[1:], state == "open", state == "reached", done, max(rounds, 1))


def goal_words(until: str, t: Translate) -> str:
    """A goal in the reader's language; as it is written where it is none."""
    try:
        return t(" or ").join(_condition(condition, t) for condition in Goal.parse(until).conditions)
    except InvalidMessage:
        return until


def _condition(condition: Condition, t: Translate) -> str:
    match condition:
        case Reach(least, "mean"):
            return t("the mean accuracy of all nodes is {least}", least=f"{least:g}")
        case Reach(least, "every"):
            return t("the accuracy on every node is {least}", least=f"{least:g}")
        case Reach(least, _):
            return t("the accuracy on the node asked is {least}", least=f"{least:g}")
        case NoGain(rounds, delta):
            return t("{rounds} rounds bring no more than {delta}", rounds=rounds, delta=f"{delta:g}")
        case Falling(cumulative=True):
            return t("the means of accuracy and loss over all rounds get worse twice running")
        case Falling():
            return t("accuracy falls and loss rises twice running")
        case Within(seconds):
            return t("{minutes} minutes are over", minutes=f"{seconds / 60:g}")


def _seconds(minutes: str) -> str:
    try:
        seconds = 60 * float(minutes)
    except ValueError:
        return minutes
    return f"{seconds:.3f}" if 0 < seconds < 1e8 else "0"


def _whole(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 10**15 else 0

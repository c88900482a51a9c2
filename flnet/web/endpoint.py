"""What is said of one endpoint of the REST API: what it takes, answers and refuses, and who may ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import FunctionType
from typing import Any

from flnet.errors import PeerError
from flnet.web.answers import JSON

NODES, JOBS, MODELS, MESH, MONITORING = "Between nodes", "Jobs", "Models", "This node and the mesh", "Monitoring"

Refusals = tuple[type[PeerError], ...]


class Who(Enum):
    """Who may ask for something."""

    NODES = "other nodes"
    ANYONE = "anyone"
    PERSONS = "persons of this node"


@dataclass(frozen=True)
class Endpoint:
    """One method of one path.

    Attributes:
        route: "GET /jobs".
        what: it does, in a sentence.
        takes: the message in the body; None for no body.
        types: of the body besides JSON.
        answer: what it answers, as a type or a function that gives one; None where that is no JSON.
        answer_type: the content type of the answer.
        alike: other statuses whose answers have the same form.
        refuses: errors of ours that a caller may meet.
        query: names of query parameters, and what they are for.
        shows_secrets: what is read is for persons of this node too.
    """

    route: str
    tag: str
    what: str
    takes: Any = None
    types: tuple[str, ...] = ()
    answer: Any = None
    status: int = 200
    answer_type: str = JSON
    alike: tuple[int, ...] = ()
    refuses: Refusals = ()
    query: Mapping[str, str] = field(default_factory=dict)
    shows_secrets: bool = False

    @property
    def who(self) -> Who:
        """Who may ask: nodes, anyone who reads, or persons of this node, for all that changes something."""
        if self.tag == NODES:
            return Who.NODES
        return Who.ANYONE if self.method == "GET" and not self.shows_secrets else Who.PERSONS

    @property
    def answers(self) -> Any:
        """The type of what it answers."""
        return self.answer() if isinstance(self.answer, FunctionType) else self.answer

    @property
    def method(self) -> str:
        """The verb."""
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        """The path, with its variables in braces."""
        return self.route.partition(" ")[2]

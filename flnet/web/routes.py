"""Routes are declared once, at the function that answers them.

A declaration says who may use the route, and for an endpoint of the REST API what it takes, answers and refuses.
Admission reads from it who may call, the app is built from it, and the API description is made from it. A handler
names what it needs as parameters: `node`, `settings`, the variables of the path, and `asked`, the JSON body, which has
been checked against the type of that parameter, or `form`, the fields of a form.

    @api.patch("/jobs/<trainer>/params", JOBS, answer=JobView, refuses=(UnknownTrainer, JobBusy))
    async def change_params(node: Node, trainer: TrainerId, asked: EditHyperParams) -> View:
        '''Change hyper-parameters for the rounds that start here.'''
        return await node.edit_hyper_params(trainer, asked)
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypedDict, TypeVar, Unpack, get_type_hints
from urllib.parse import parse_qs

import orjson
from pydantic import BaseModel, ValidationError
from quart import Blueprint, Request, Response, request
from werkzeug.exceptions import UnsupportedMediaType

from flnet.errors import BodyTooLarge, InvalidMessage, PeerError, UnreadableBody
from flnet.node.interface import Node
from flnet.protocol.messages import explain
from flnet.rounds.view import JobView
from flnet.settings import Settings
from flnet.text import text
from flnet.web.auth.permissions import Who, is_browser
from flnet.web.body import LimitedBody, read_body
from flnet.wire.transport import CONTROL_BYTES

NODES, JOBS, MODELS = text("Between nodes"), text("Jobs"), text("Models")
MESH, MONITORING = text("This node and the mesh"), text("Monitoring")
JSON = "application/json"
CURL_DEFAULT = "application/x-www-form-urlencoded"  # what curl -d states for any body
UNREADABLE: tuple[type[PeerError], ...] = (UnreadableBody, InvalidMessage, BodyTooLarge)
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
VARIABLE = re.compile(r"<(?:\w+:)?(\w+)>")

Handler = Callable[..., Awaitable[Any]]
BodyOf = Callable[[Request, Node, Settings], LimitedBody]
H = TypeVar("H", bound=Handler)
M = TypeVar("M", bound=BaseModel)


def described_name(variable: str) -> str:
    """The name of a path variable in the API description."""
    return {"trainer": "trainerId"}.get(variable, variable)


def control_body(request: Request, node: Node, settings: Settings) -> LimitedBody:
    """The body of a request that carries no model."""
    return LimitedBody(request.content_length, CONTROL_BYTES)


@dataclass(frozen=True)
class Route:
    """One method of one path.

    Attributes:
        rule: the path as Quart writes it: "/jobs/<trainer>".
        body: chooses where the body of a request goes, and how large it may be.
    """

    method: str
    rule: str
    handler: Handler
    who: Who
    body: BodyOf = control_body

    @property
    def path(self) -> str:
        """The path as the API description writes it: "/jobs/{trainerId}"."""
        return VARIABLE.sub(lambda variable: f"{{{described_name(variable[1])}}}", self.rule)

    @property
    def name(self) -> str:
        """Method and path."""
        return f"{self.method} {self.path}"

    @cached_property
    def parameters(self) -> frozenset[str]:
        """Names of the parameters of the handler."""
        return frozenset(inspect.signature(self.handler).parameters)

    @cached_property
    def asked(self) -> type[BaseModel] | None:
        """The message that the handler takes; None if it takes none."""
        return get_type_hints(self.handler)["asked"] if "asked" in self.parameters else None

    @property
    def reads_body(self) -> bool:
        """Whether the handler reads the body itself."""
        return self.body is not control_body

    def view(self, node: Node, settings: Settings) -> Callable[..., Awaitable[Any]]:
        """The function that answers requests to the app of one node."""
        parts = {"node": node, "settings": settings}
        given = {name: part for name, part in parts.items() if name in self.parameters}

        async def view(**variables: str) -> Any:
            arguments: dict[str, Any] = {**given, **variables}
            if self.asked is not None:
                arguments["asked"] = read_message(self.asked, await read_json())
            elif "form" in self.parameters:
                arguments["form"] = await read_form()
            elif not self.reads_body and self.method not in SAFE_METHODS:
                await read_body()  # nothing is expected in it
            return self.answered(await self.handler(**arguments))

        return view

    def answered(self, result: Any) -> Any:
        """The answer that is made of what the handler returned."""
        return result


@dataclass(frozen=True)
class Endpoint(Route):
    """A route of the REST API, with what its description says.

    Attributes:
        what: a sentence on what it does.
        accepts: the message in a body that the handler reads itself.
        types: of the body besides JSON.
        answer: the type of the answer; None where that is not JSON.
        answer_type: the content type of the answer.
        alike: other statuses whose answer has the same form.
        refuses: errors that a caller may meet, besides those of every JSON body.
        query: the query parameters, with what each is for.
    """

    tag: str = ""
    what: str = ""
    accepts: Any = None
    types: tuple[str, ...] = ()
    answer: Any = None
    status: int = 200
    answer_type: str = JSON
    alike: tuple[int, ...] = ()
    refuses: tuple[type[PeerError], ...] = ()
    query: Mapping[str, str] = field(default_factory=dict)

    @property
    def takes(self) -> Any:
        """The message in the body; None if there is none."""
        return self.asked or self.accepts

    @property
    def refusals(self) -> tuple[type[PeerError], ...]:
        """All errors that a caller may meet for what it sends."""
        return (*UNREADABLE, *self.refuses) if self.asked is not None else self.refuses

    @property
    def reads_body(self) -> bool:
        """Whether the handler reads the body itself."""
        return super().reads_body or self.accepts is not None

    def answered(self, result: Any) -> Any:
        """Answer with the handler's result as JSON."""
        return result if isinstance(result, Response) else json_answer(result, self.status)


class Details(TypedDict, total=False):
    """The optional parts of an endpoint's declaration; see `Endpoint`."""

    who: Who
    body: BodyOf
    what: str
    accepts: Any
    types: tuple[str, ...]
    answer: Any
    status: int
    answer_type: str
    alike: tuple[int, ...]
    refuses: tuple[type[PeerError], ...]
    query: Mapping[str, str]


class Api(list[Endpoint]):
    """The endpoints of one part of the REST API."""

    def add(self, method: str, rule: str, tag: str, handler: Handler, **details: Unpack[Details]) -> None:
        """Declare an endpoint. Unless `who` says otherwise, only the operator may use one that changes something."""
        reads = Who.READERS if method == "GET" else Who.OPERATOR
        details.setdefault("who", Who.NODES if tag == NODES else reads)
        details.setdefault("what", (handler.__doc__ or "").partition("\n")[0].removesuffix("."))
        self.append(Endpoint(method, rule, handler, tag=tag, **details))

    def declare(self, method: str, rule: str, tag: str, **details: Unpack[Details]) -> Callable[[H], H]:
        """Declare the function below as the handler of an endpoint, described by its docstring."""

        def declared(handler: H) -> H:
            self.add(method, rule, tag, handler, **details)
            return handler

        return declared

    def get(self, rule: str, tag: str, **details: Unpack[Details]) -> Callable[[H], H]:
        """Declare a GET."""
        return self.declare("GET", rule, tag, **details)

    def post(self, rule: str, tag: str, **details: Unpack[Details]) -> Callable[[H], H]:
        """Declare a POST."""
        return self.declare("POST", rule, tag, **details)

    def put(self, rule: str, tag: str, **details: Unpack[Details]) -> Callable[[H], H]:
        """Declare a PUT."""
        return self.declare("PUT", rule, tag, **details)

    def patch(self, rule: str, tag: str, **details: Unpack[Details]) -> Callable[[H], H]:
        """Declare a PATCH."""
        return self.declare("PATCH", rule, tag, **details)

    def delete(self, rule: str, tag: str, **details: Unpack[Details]) -> Callable[[H], H]:
        """Declare a DELETE."""
        return self.declare("DELETE", rule, tag, **details)


class Pages(list[Route]):
    """Pages, and the forms and files that belong to them."""

    def get(self, rule: str, who: Who = Who.READERS) -> Callable[[H], H]:
        """Declare a page."""
        return self._declared("GET", rule, who, control_body)

    def post(self, rule: str, who: Who = Who.OPERATOR, body: BodyOf = control_body) -> Callable[[H], H]:
        """Declare what a form does."""
        return self._declared("POST", rule, who, body)

    def _declared(self, method: str, rule: str, who: Who, body: BodyOf) -> Callable[[H], H]:
        def declared(handler: H) -> H:
            self.append(Route(method, rule, handler, who, body))
            return handler

        return declared


def blueprint(name: str, routes: Iterable[Route], node: Node, settings: Settings) -> Blueprint:
    """The routes as a Quart blueprint for one node."""
    made = Blueprint(name, __name__)
    for route in routes:
        endpoint = re.sub(r"\W+", "_", f"{route.method}{route.rule}")
        made.add_url_rule(route.rule, endpoint, route.view(node, settings), methods=[route.method])
    return made


def json_answer(data: Any, status: int = 200) -> Response:
    """`data` as JSON; NaN and infinity become null.

    Args:
        data: JSON-ready, or views of jobs.
    """
    return Response(orjson.dumps(data, default=JobView.as_json), status, content_type=JSON)


async def read_json() -> Any:
    """The JSON in the body of the current request.

    Raises:
        UnsupportedMediaType, UnreadableBody: the body is not JSON.
    """
    acceptable_type()
    try:
        return orjson.loads(await read_body())
    except orjson.JSONDecodeError as exc:
        raise UnreadableBody(text("the body is no JSON: {reason}", exc)) from exc


def read_message(kind: type[M], fields: Any) -> M:
    """The fields of a request as a message. Types are strict: "2" is not a number.

    Raises:
        InvalidMessage: a field breaks a rule.
    """
    try:
        return kind.model_validate(fields, strict=True)
    except ValidationError as exc:
        raise InvalidMessage(explain(exc)) from exc


async def read_form() -> Mapping[str, str]:
    """The fields of the form that was sent, the first value of each."""
    fields = parse_qs((await read_body()).decode(errors="replace"))
    return {name: values[0] for name, values in fields.items()}


def acceptable_type(also: str = "") -> str:
    """The content type of the request; JSON if a program does not state one.

    Args:
        also: another type that the endpoint accepts, which the refusal names.

    Raises:
        UnsupportedMediaType: the type is neither JSON nor the default of curl. A browser must state JSON, because
            a page of another site cannot make it do so without a preflight request to this node.
    """
    stated = request.mimetype or ("" if is_browser() else JSON)
    if stated == JSON or (stated.startswith("application/") and stated.endswith("+json")):
        return JSON
    if stated == CURL_DEFAULT and not is_browser():
        return stated
    expected = text("{one} or {other}", JSON, also) if also else JSON
    raise UnsupportedMediaType(
        text("the body must be {expected}, but its content type is {stated}", expected, repr(stated[:100]))
    )

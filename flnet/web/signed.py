"""Requests between the nodes of a mesh with a key: let in by their signatures, and answered with one.

Signatures are looked at as soon as the headers are here, so that nobody makes this node take in a body in vain.
"""

from __future__ import annotations

from typing import Any

from quart import Quart, Request, Response, g, redirect, request
from quart.wrappers.response import DataBody

from flnet.errors import PeerError
from flnet.messages import Accuracy, Announce, AskVersion, ModelParams, Probe, StartTraining
from flnet.node.door import Door
from flnet.node.introductions import PATH as INTRODUCTIONS
from flnet.signing import Caller
from flnet.signing.refusals import SignatureNeeded, SignatureRefused
from flnet.signing.requests import RECEIVER
from flnet.transport.sealing import sha256_of
from flnet.web.caller import caller_ip, ip_of
from flnet.web.standing import may_act

_PULLED = f"{ModelParams.path}/"
RULES = frozenset(
    {
        INTRODUCTIONS,
        *(kind.path for kind in (Announce, Probe, StartTraining, ModelParams, Accuracy, AskVersion)),
        f"{_PULLED}<digest>",
    }
)
# What everybody may have of a node whose mesh has a key, or is pinned; all else is read by nodes and persons.
FOR_ALL = frozenset(
    {"/sign-in", "/sign-out", "/look", "/health", "/ready", "/openapi.json", "/web/<name>", "/web/<stated>/<name>"}
)
_NAME = "caller"
# Of a request. No WeakKeyDictionary: a refusal holds the frames that it was raised in, and by them the request,
# which would then be kept for ever.
_VERDICT = "verdict"


class SignedRequests:
    """What is known of the signatures of the requests under way."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def admit(self, asked: Request) -> bool:
        """Look at the headers of a request; False if its body is not wanted.

        What persons and their browsers ask is not signed, and decided on elsewhere.
        """
        headers = asked.headers
        is_ours = asked.path in RULES or asked.path.startswith(_PULLED)
        if not is_ours and RECEIVER not in headers and "Signature-Input" not in headers:
            return True
        path = asked.scope["raw_path"].decode("latin-1")
        query = asked.scope["query_string"].decode("latin-1")
        try:
            setattr(asked, _VERDICT, self._door.enter(asked.method, path, query, headers.get, ip_of(asked)))
        except PeerError as exc:
            setattr(asked, _VERDICT, exc)
            return False
        return True

    async def check(self) -> Any:
        """Refuse the current request if it is not let in; send the browsers of strangers to where people sign in.

        Raises:
            SignatureNeeded, SignatureRefused, NotAccepted: see `flnet.node.door.Door.enter`.
        """
        verdict = self._verdict()
        if isinstance(verdict, PeerError):
            raise verdict
        g.setdefault(_NAME, verdict)
        g.setdefault("door", self._door)
        if verdict is not None or request.url_rule is None:
            return None
        rule = request.url_rule.rule
        if rule in RULES:
            raise SignatureNeeded("requests between the nodes of this mesh are signed, and this one is not")
        if rule in FOR_ALL or may_act():
            return None
        if request.method == "GET" and "text/html" in request.headers.get("Accept", ""):
            return redirect("/sign-in")
        raise SignatureNeeded("this is for nodes of this mesh and persons of this node: sign in to read it")

    async def sign(self, answer: Response) -> Response:
        """Sign the answer to a request that was let in; tell others for whom to sign."""
        verdict = self._verdict()
        if isinstance(verdict, SignatureNeeded):
            answer.headers["WWW-Authenticate"] = self._door.challenge
        elif isinstance(verdict, Caller):
            whole = isinstance(answer.response, DataBody)
            sha256 = await sha256_of(await answer.get_data(as_text=False)) if whole else None
            content_type = answer.headers.get("Content-Type")
            answer.headers.update(self._door.answer(verdict, answer.status_code, content_type, sha256))
        return answer

    def _verdict(self) -> Caller | PeerError | None:
        verdict: Caller | PeerError | None = getattr(request, _VERDICT, None)
        return verdict


def check_signatures(app: Quart, requests: SignedRequests | None) -> None:
    """Refuse what is not signed for this node, and sign its answers; without a key, nothing is looked at."""
    if requests is not None:
        app.before_request(requests.check)
        app.after_request(requests.sign)


async def signed_by(body: bytes | memoryview) -> str:
    """The public key that signed the current request, whose content this is; empty in an open mesh.

    Raises:
        SignatureRefused: the content is not the one that was signed.
    """
    caller: Caller | None = g.get(_NAME)
    if caller is None:
        return ""
    try:
        caller.sent(await sha256_of(body))
    except SignatureRefused as exc:
        g.door.tell(caller_ip(), request.path, exc)
        raise
    return caller.key

"""How a notice leaves this node: as a webhook (signed as standardwebhooks.com has it) or by mail (SMTP)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import hmac
import json
import smtplib
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from typing import Protocol
from urllib.parse import parse_qs, unquote, urlsplit

import httpx

from flnet.settings import check_notify_mail

ANSWER_SECONDS = 10.0  # for each step of a connection
WHOLE_SECONDS = 40.0  # for all of a mail
_TITLES = {
    "round_bad": "a round ended badly",
    "peer_lost": "a node is gone",
    "accuracy_fell": "the accuracy fell",
    "budget_spent": "a privacy budget is spent",
    "key_waits": "a key waits to be accepted",
}
KINDS = tuple(_TITLES)


@dataclass(frozen=True)
class Notice:
    """Something that a person should know.

    Attributes:
        id: the same for each try to send it.
        at: seconds since the epoch by this node's clock.
        kind: one of KINDS.
        text: a sentence in English.
        node, mesh: names of who says it.
        trainer: empty for the mesh.
        more: how many notices of this kind were left out since the last one that was sent.
    """

    id: str
    at: float
    kind: str
    text: str
    node: str
    mesh: str
    trainer: str = ""
    more: int = 0

    @property
    def title(self) -> str:
        """A few words, without what peers said."""
        return f"{self.node}: {_TITLES[self.kind]}"

    @property
    def words(self) -> str:
        """The sentence, and how many were left out."""
        return f"{self.text} (and {self.more} more of this kind since the last notice)" if self.more else self.text


class NotSent(Exception):
    """A notice did not arrive; the message says why, and names no secret.

    Attributes:
        is_final: whether another try would end likewise.
    """

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class Channel(Protocol):
    """A way on which notices leave; the tests have one in memory."""

    name: str

    async def send(self, notice: Notice) -> None:
        """Send one notice.

        Raises:
            NotSent: it did not arrive, or nobody said that it did.
        """
        ...


class Webhook:
    """POSTs notices as JSON to an address that a person of this node chose."""

    name = "webhook"

    def __init__(self, url: str, secret: str = "") -> None:
        """Args:
        url: http or https; redirects are not followed.
        secret: for signatures; base64 after "whsec_", else any text. Empty: none are made.
        """
        self._url, self._key = url, _key_of(secret)

    async def send(self, notice: Notice) -> None:
        """See `Channel.send`."""
        body = json.dumps(
            {
                "type": f"flnet.{notice.kind}",
                "timestamp": datetime.fromtimestamp(notice.at, UTC).isoformat(),
                "text": f"{notice.title}: {notice.words}",  # all that chat programs read
                "data": asdict(notice),
            }
        ).encode()
        sent_at = str(int(time.time()))  # of this try: receivers refuse old ones
        headers = {"Content-Type": "application/json", "webhook-id": notice.id, "webhook-timestamp": sent_at}
        if self._key:
            signed = f"{notice.id}.{sent_at}.".encode() + body
            mark = base64.b64encode(hmac.digest(self._key, signed, hashlib.sha256)).decode()
            headers["webhook-signature"] = f"v1,{mark}"
        try:
            async with (
                httpx.AsyncClient(timeout=ANSWER_SECONDS, trust_env=False) as client,
                client.stream("POST", self._url, content=body, headers=headers) as answer,
            ):
                status = answer.status_code  # the body, of whatever size, is not read
        except (httpx.HTTPError, OSError, ValueError) as exc:
            raise NotSent(
                type(exc).__name__
            ) from exc  # the message might show the address, which is often a secret
        if not 200 <= status < 300:
            raise NotSent(f"HTTP {status}", is_final=status < 500 and status not in (408, 425, 429))


class Mail:
    """Sends notices through a mail server.

    The address is `smtp://user:password@host:587?to=ana@example.org&from=node@example.org`, or smtps:// for TLS from the
    first byte. With smtp://, the connection changes to TLS if the server offers it; a password is sent over TLS only.
    """

    name = "mail"

    def __init__(self, address: str) -> None:
        """Args:
        address: as above; several recipients are separated by commas.
        """
        check_notify_mail(address)
        parts, asked = urlsplit(address), parse_qs(urlsplit(address).query)
        self._is_tls = parts.scheme == "smtps"
        self._host, self._port = parts.hostname or "", parts.port or (465 if self._is_tls else 587)
        self._user, self._password = unquote(parts.username or ""), unquote(parts.password or "")
        self._to = [each.strip() for each in asked["to"][0].split(",")]
        self._from = asked.get("from", [self._to[0]])[0]

    async def send(self, notice: Notice) -> None:
        """See `Channel.send`."""
        try:
            await asyncio.wait_for(_in_thread(lambda: self._send(self._message(notice))), WHOLE_SECONDS)
        except smtplib.SMTPResponseException as exc:
            raise NotSent(f"SMTP {exc.smtp_code}", is_final=exc.smtp_code >= 500) from exc
        except smtplib.SMTPRecipientsRefused as exc:
            raise NotSent("the recipients are refused", is_final=True) from exc
        except (smtplib.SMTPException, OSError, ValueError) as exc:  # a TimeoutError is an OSError
            raise NotSent(f"{type(exc).__name__}: {exc}") from exc

    def _message(self, notice: Notice) -> EmailMessage:
        message = EmailMessage()
        message["Subject"], message["From"], message["To"] = notice.title, self._from, ", ".join(self._to)
        message["Date"] = format_datetime(datetime.fromtimestamp(notice.at, UTC))
        message["Message-ID"] = make_msgid(notice.id, self._from.rpartition("@")[2])
        message["Auto-Submitted"] = "auto-generated"
        lines = [notice.words, "", f"node: {notice.node}", f"mesh: {notice.mesh}"]
        message.set_content("\n".join([*lines, *([f"trainer: {notice.trainer}"] if notice.trainer else [])]))
        return message

    def _send(self, message: EmailMessage) -> None:
        context = ssl.create_default_context()
        if self._is_tls:
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                self._host, self._port, timeout=ANSWER_SECONDS, context=context
            )
        else:
            server = smtplib.SMTP(self._host, self._port, timeout=ANSWER_SECONDS)
        with server:
            server.ehlo()
            is_tls = self._is_tls
            if not is_tls and server.has_extn("starttls"):
                server.starttls(context=context)
                is_tls = True
            if self._user:
                if not is_tls:
                    raise NotSent(
                        "the mail server offers no TLS, and the password is sent over TLS only", is_final=True
                    )
                server.login(self._user, self._password)
            server.send_message(message)


def _key_of(secret: str) -> bytes:
    prefix, _, encoded = secret.partition("_")
    if prefix == "whsec":
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error:
            pass
    return secret.encode()


async def _in_thread(work: Callable[[], None]) -> None:
    """Run it in a thread that does not keep the process from ending, as those of `asyncio.to_thread` do."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def end(fault: BaseException | None) -> None:
        if not done.done():
            done.set_result(None) if fault is None else done.set_exception(fault)

    def run() -> None:
        fault: BaseException | None = None
        try:
            work()
        except Exception as exc:  # raised where the work is awaited
            fault = exc
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(end, fault)

    threading.Thread(target=run, name="mail", daemon=True).start()
    await done

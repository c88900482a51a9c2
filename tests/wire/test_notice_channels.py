"""Notices over real HTTP and real SMTP on loopback: what arrives, how it is signed, and what a refusal means."""

from __future__ import annotations

import asyncio
import base64
import email
import email.policy
import hashlib
import hmac
import ipaddress
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from flnet.settings import check_notify_mail, check_notify_url
from flnet.wire import notice_channels
from flnet.wire.notice_channels import Channel, Mail, Notice, NotSent, Webhook

NOTICE = Notice("n1", 1_700_000_000.0, "peer_lost", "b: no answer for 600 seconds", "ana", "lab", more=2)
TO = "to=ana@example.org,eva@example.org&from=node@example.org"
Streams = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def served(talk: Streams, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server on loopback; its port."""
    server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]


class HttpServer:
    """Answers requests with the given heads, the last one for ever."""

    def __init__(self, *heads: str) -> None:
        self.heads, self.requests = list(heads), list[tuple[str, dict[str, str], bytes]]()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        body = await reader.readexactly(int(headers["content-length"]))
        self.requests.append((head[0], headers, body))
        answer = self.heads.pop(0) if len(self.heads) > 1 else self.heads[0]
        writer.write(f"HTTP/1.1 {answer}\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()


class SmtpServer:
    """Takes mail in clear text, as far as smtplib needs it.

    Attributes:
        answers: to commands by their verb, in place of the usual ones.
    """

    def __init__(self, *extensions: str, **answers: str) -> None:
        self.extensions, self.answers = extensions, answers
        self.commands: list[str] = []
        self.mails: list[bytes] = []

    tls: ssl.SSLContext | None = None  # for STARTTLS

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 loopback\r\n")
        while line := await reader.readline():
            command = line.decode().strip()
            self.commands.append(command)
            verb = command.split(" ", maxsplit=1)[0].upper()
            if verb == "EHLO":
                lines = ["loopback", *self.extensions]
                answer = "".join(
                    f"250{'-' if n < len(lines) - 1 else ' '}{each}\r\n" for n, each in enumerate(lines)
                )
                writer.write(answer.encode())
                continue
            answer = self.answers.get(
                verb, {"DATA": "354 go on", "QUIT": "221 bye", "STARTTLS": "220 go on"}.get(verb, "250 ok")
            )
            writer.write(f"{answer}\r\n".encode())
            if answer.startswith("354"):
                self.mails.append(await reader.readuntil(b"\r\n.\r\n"))
                writer.write(b"250 taken\r\n")
            if verb == "QUIT":
                break
            if verb == "STARTTLS" and self.tls is not None:
                try:
                    await writer.start_tls(self.tls)
                except (ssl.SSLError, OSError):
                    return
                self.commands.append("(TLS)")
        await writer.drain()
        writer.close()


async def not_sent(channel: Channel) -> NotSent:
    with pytest.raises(NotSent) as refused:
        await channel.send(NOTICE)
    return refused.value


@pytest.mark.parametrize(
    "secret", ["", "a secret of people", "whsec_" + base64.b64encode(b"\x00\xffkey").decode()]
)
async def test_a_webhook_is_json_and_signed_if_there_is_a_secret(secret: str) -> None:
    server = HttpServer("204 No Content")
    async with served(server.talk) as port:
        await Webhook(f"http://127.0.0.1:{port}/hook?a=1", secret).send(NOTICE)
    ((line, headers, body),) = server.requests
    assert line == "POST /hook?a=1 HTTP/1.1"
    sent = json.loads(body)
    assert (sent["type"], sent["data"]["node"], sent["data"]["more"]) == ("flnet.peer_lost", "ana", 2)
    assert sent["text"].startswith("ana: a node is gone: b: no answer for 600 seconds (and 2 more of this kind")
    if not secret:
        assert "webhook-signature" not in headers
        return
    key = b"\x00\xffkey" if secret.startswith("whsec_") else secret.encode()
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 3600


@pytest.mark.parametrize(
    ("head", "is_final"),
    [
        ("404 Not Found", True),
        ("302 Found\r\nLocation: http://127.0.0.1:1/", True),
        ("429 Too Many Requests", False),
        ("503 Service Unavailable", False),
        ("no HTTP", False),
    ],
)
async def test_what_a_refused_webhook_means(head: str, is_final: bool) -> None:
    server = HttpServer(head)
    async with served(server.talk) as port:
        refused = await not_sent(Webhook(f"http://127.0.0.1:{port}/secret-path"))
    assert refused.is_final == is_final
    assert "secret-path" not in str(refused)
    assert len(server.requests) == 1
    assert not (
        await not_sent(Webhook(f"http://127.0.0.1:{port}/secret-path"))
    ).is_final  # nobody is there any more


async def test_a_mail_arrives_whole() -> None:
    server = SmtpServer("8BITMIME")
    async with served(server.talk) as port:
        await Mail(f"smtp://127.0.0.1:{port}?{TO}").send(NOTICE)
    (mail,) = server.mails
    message = email.message_from_bytes(mail, policy=email.policy.default)
    assert message["Subject"] == "ana: a node is gone"
    assert (message["From"], message["To"]) == ("node@example.org", "ana@example.org, eva@example.org")
    assert "b: no answer for 600 seconds (and 2 more" in message.get_content()
    assert [each for each in server.commands if each.upper().startswith("RCPT")] == [
        "rcpt TO:<ana@example.org>",
        "rcpt TO:<eva@example.org>",
    ]


async def test_a_password_is_not_sent_without_tls() -> None:
    server = SmtpServer("AUTH PLAIN LOGIN")
    async with served(server.talk) as port:
        refused = await not_sent(Mail(f"smtp://ana:pass%3Aword@127.0.0.1:{port}?{TO}"))
    assert refused.is_final
    assert "over TLS only" in str(refused)
    assert not any("AUTH" in command.upper() for command in server.commands)
    assert server.mails == []


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """TLS of a server on loopback, whose certificate this process trusts."""
    key, name = (
        ec.generate_private_key(ec.SECP256R1()),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mail")]),
    )
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder(
        name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1)
    )
    signed = made.add_extension(address, critical=False).sign(key, hashes.SHA256())
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "pem").write_bytes(secret + signed.public_bytes(Encoding.PEM))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "pem"))
    return context


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
async def test_over_tls_the_password_is_sent_and_the_mail_arrives(tls: ssl.SSLContext, scheme: str) -> None:
    is_first = scheme == "smtps"
    server = SmtpServer("AUTH PLAIN", *([] if is_first else ["STARTTLS"]), AUTH="235 welcome")
    server.tls = None if is_first else tls
    async with served(server.talk, tls if is_first else None) as port:
        await Mail(f"{scheme}://ana%40x:pass%3Aword@127.0.0.1:{port}?{TO}").send(NOTICE)
    (auth,) = [command for command in server.commands if command.startswith("AUTH")]
    assert base64.b64decode(auth.split()[-1]) == b"\0ana@x\0pass:word"
    assert is_first or server.commands.index("(TLS)") < server.commands.index(auth)
    assert len(server.mails) == 1


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
async def test_a_server_whose_certificate_nobody_vouches_for_gets_neither_password_nor_mail(
    tls: ssl.SSLContext, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    server = SmtpServer("AUTH PLAIN", "STARTTLS", AUTH="235 welcome")
    server.tls = tls
    async with served(server.talk, tls if scheme == "smtps" else None) as port:
        refused = await not_sent(Mail(f"{scheme}://ana:pass@127.0.0.1:{port}?{TO}"))
    assert "certificate" in str(refused).lower()
    assert server.mails == []
    assert not any(command.startswith("AUTH") for command in server.commands)


@pytest.mark.parametrize(
    ("server", "is_final"),
    [
        (SmtpServer(RCPT="550 no such user"), True),
        (SmtpServer(MAIL="451 later"), False),
        (SmtpServer(DATA="554 no"), True),
        (SmtpServer("STARTTLS", STARTTLS="454 not now"), False),
    ],
)
async def test_what_a_refused_mail_means(server: SmtpServer, is_final: bool) -> None:
    async with served(server.talk) as port:
        assert (await not_sent(Mail(f"smtp://127.0.0.1:{port}?{TO}"))).is_final == is_final
    assert server.mails == []


async def test_tls_that_is_none_and_servers_that_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notice_channels, "ANSWER_SECONDS", 0.2)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with served(silent) as port:
        assert not (await not_sent(Mail(f"smtp://127.0.0.1:{port}?{TO}"))).is_final
        assert not (await not_sent(Webhook(f"http://127.0.0.1:{port}"))).is_final
    async with served(SmtpServer().talk) as port:
        assert not (await not_sent(Mail(f"smtps://127.0.0.1:{port}?{TO}"))).is_final


@pytest.mark.parametrize(
    "url", ["ftp://a", "http://", "https:///x", "http://a b", "http://a:99999", "a", "http://a/\nb", "http://a/#x"]
)
def test_addresses_that_are_no_webhook(url: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        check_notify_url(url)


@pytest.mark.parametrize(
    "address",
    [
        "smtp://host",
        "smtp://?to=a@b",
        "http://host?to=a@b",
        "smtp://host?to=a",
        "smtp://host?to=a@b,",
        "smtp://host?to=a@b&cc=c@d",
        "smtp://host?to=a@b%0ABcc:c@d",
        "smtp://host?to=a@b&to=c@d&from=e@f",
    ],
)
def test_addresses_that_are_no_mail_server(address: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        check_notify_mail(address)


@given(
    st.sampled_from(["http://", "smtp://a?to=", "smtps://", ""]), st.text("abhst:/@?&=%#[]. 0,-\n", max_size=40)
)
def test_any_text_is_an_address_or_refused(begin: str, rest: str) -> None:
    text = begin + rest
    for check, make in ((check_notify_url, Webhook), (check_notify_mail, Mail)):
        try:
            make(check(text))
        except ValueError as exc:
            assert "expected" in str(exc)  # noqa: PT017 - most texts are refused

"""The operator's token: what a person on another machine shows in order to act on this node."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from pathlib import Path

from flnet.errors import SettingsError, StartError
from flnet.names import hostport
from flnet.security.keys import SECRET_MODE, open_to_others, write_secret
from flnet.security.ownership import check_file
from flnet.settings import LOOPBACK, PREFIX, Settings

_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared here, not listened on

NAME = "operator-token"  # of its file in the state folder
_FORM = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")
_log = logging.getLogger("flnet.web")


class OperatorToken:
    """A fixed token, or one in a file that is read again whenever the file has changed."""

    def __init__(self, fixed: str | None = None, file: Path | None = None) -> None:
        self._text, self._file = fixed, file
        self._seen: tuple[int, ...] = ()
        self.version = 0
        """Goes up when the token becomes another one, or none."""
        self.text()

    def text(self) -> str | None:
        """The token as it is now; None while its file holds none."""
        if self._file is None:
            return self._text
        if (seen := _state_of(self._file)) != self._seen:
            before, self._seen, self._text = self._text, seen, read_token(self._file)
            self.version += self._text != before
        return self._text

    def matches(self, given: str) -> bool:
        """Whether this is the token; takes as long for a nearly right one as for a wrong one."""
        right = self.text()
        if right is None:
            return False
        return hmac.compare_digest(_digest(given), _digest(right))


def token_of(settings: Settings) -> OperatorToken:
    """The token of a node that starts: from the settings, or from its state folder, where one is made if needed.

    Raises:
        SettingsError: the file that was named holds no token.
        StartError: another user can change that file, or the one in the state folder cannot be written.
    """
    if settings.operator_token is not None:
        return OperatorToken(settings.operator_token)
    if settings.operator_token_file is not None:
        check_file(settings.operator_token_file, "OPERATOR_TOKEN_FILE")
        if read_token(settings.operator_token_file) is None:
            raise SettingsError(
                f"{PREFIX}OPERATOR_TOKEN_FILE={settings.operator_token_file}: expected a file with one line of 16 "
                "to 512 letters, digits and ._~+/=-"
            )
        return OperatorToken(file=settings.operator_token_file)
    path = token_path(settings)
    if read_token(path) is None:
        write_new(path)
    elif open_to_others(path):
        _log.warning("%s could be read by other people of this machine; now it cannot", path)
        path.chmod(SECRET_MODE)
    return OperatorToken(file=path)


def token_path(settings: Settings) -> Path:
    """Where a node keeps the token that it made."""
    return settings.folder / NAME


def read_token(path: Path) -> str | None:
    """The token in a file; None if there is no such file, or no token in it."""
    try:
        with path.open("rb") as file:
            text = file.read(1024).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return text if _FORM.fullmatch(text) else None


def write_new(path: Path) -> str:
    """Put a new token in place of an older one; nodes that use it notice at their next request.

    Raises:
        StartError: it cannot be written; an older one is still there.
    """
    token = secrets.token_urlsafe(32)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_secret(path, f"{token}\n".encode())
    except OSError as exc:
        raise StartError(f"the operator's token cannot be written to {path} ({exc.strerror or exc})") from exc
    return token


def _state_of(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return (0,)
    return (status.st_mtime_ns, status.st_ino, status.st_size)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def is_token_needed(settings: Settings) -> bool:
    """Whether anybody who can reach the node has to sign in."""
    is_at_home = settings.listen_address in LOOPBACK and settings.relay is None
    return not (is_at_home and settings.trust_loopback)


def page_address(settings: Settings) -> str:
    """The address of the node's page."""
    host = "127.0.0.1" if settings.listen_address in _EVERYWHERE else settings.listen_address
    scheme = "https" if settings.mode == "pinned" else "http"
    return f"{scheme}://{hostport(settings.node_ip or host, settings.node_port)}/"


def sign_in_link(settings: Settings, token: str) -> str:
    """A link that signs in; the part after "#" is never sent to a server."""
    return f"{page_address(settings)}sign-in#{token}"

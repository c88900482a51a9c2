from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from flnet.cli.logs import OneLine, set_up_logging


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    libraries = {name: logging.getLogger(name).level for name in ("httpx", "httpcore", "asyncio")}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, old in libraries.items():
        logging.getLogger(name).setLevel(old)


def test_a_record_is_one_line_even_with_a_traceback_and_a_hostile_name() -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError as exc:
        record = logging.LogRecord(
            "x", logging.ERROR, "f", 1, "peer %s", ("\x1b[2J\nERROR fake",), (type(exc), exc, None)
        )
    line = OneLine().format(record)
    assert line.isprintable()
    assert r"peer \x1b[2J\nERROR fake" in line
    assert r"ValueError: first\nsecond" in line


def test_libraries_are_heard_from_warnings_on(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("INFO")
    logging.getLogger("flnet.node").info("ours")
    logging.getLogger("httpx").info("HTTP Request")
    logging.getLogger("httpx").warning("trouble")
    written = capsys.readouterr().err.splitlines()
    assert [line.split(": ", 1)[1] for line in written] == ["ours", "trouble"]


def test_debug_shows_the_libraries_too(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("DEBUG")
    logging.getLogger("httpx").debug("HTTP Request")
    assert "HTTP Request" in capsys.readouterr().err


def test_error_level_silences_library_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("ERROR")
    logging.getLogger("httpx").warning("trouble")
    assert capsys.readouterr().err == ""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flnet.cli.output import (
    JOB_LINES,
    LINES,
    LINES_PER_MINUTE,
    TRACEBACKS,
    CauseLimit,
    OneLine,
    accuracy,
    chosen_metrics,
    counted,
    means,
    metric_words,
    metrics_of,
    printable,
    set_up_logging,
    share,
    short,
)
from flnet.text import text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, with ümläuts", "plain, with ümläuts"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("two\nlines", r"two\nlines"),
        ("\u202eevil", r"\u202eevil"),
        ("broken \ud800", r"broken \ud800"),
        (None, "None"),
    ],
)
def test_printable_disarms_what_a_terminal_would_obey(text: object, shown: str) -> None:
    assert printable(text) == shown


def test_short_forms() -> None:
    assert short("0123456789abcdef") == "0123456789"
    assert short(None) == "-"
    assert accuracy(0.51234) == "0.5123"
    assert accuracy(None) == "-"
    assert [share(each) for each in (0.625, 0.0002, 0, None, "x")] == ["62.5 %", "0.02 %", "0.0 %", "-", "-"]
    assert (counted(1, "node"), counted(0, "node")) == ("1 node", "0 nodes")


# metrics


@pytest.mark.parametrize(
    ("given", "first"),
    [
        (["recall", "auc", "f1_macro"], ["f1_macro", "auc", "recall"]),
        (["official_accuracy", "official_auc", "balanced_accuracy"], ["balanced_accuracy", "official_auc"]),
        (["hamming", "global_argmax_accuracy", "global_f1_macro"], ["global_f1_macro", "global_argmax_accuracy"]),
        (["wauc", "auc"], ["auc", "wauc"]),
        (
            ["common_test_auc", "recall", "auc", "common_test_accuracy"],
            ["common_test_accuracy", "auc", "recall", "common_test_auc"],
        ),
    ],
)
def test_telling_figures_come_first(given: list[str], first: list[str]) -> None:
    assert chosen_metrics(["accuracy", *given, *given], every=False)[: len(first)] == first


def test_at_most_six_are_chosen_unless_all_are_asked_for() -> None:
    names = [f"n{i}" for i in range(9)]
    assert chosen_metrics(names, every=False) == names[:6]
    assert chosen_metrics(names, every=True) == names


def test_hidden_figures_are_counted() -> None:
    figures = {f"n{i}": 0.5 for i in range(8)}
    assert metric_words(figures, every=False).endswith("n5 0.5000, and 2 more (--metrics all)")
    assert metric_words(figures, every=True).endswith("n7 0.5000")
    assert metric_words({"accuracy": 1.0}, every=True) == ""


def test_the_accuracy_is_the_one_that_is_averaged() -> None:
    view = {"post_fedavg_accuracy": 0.5, "metrics": {"before": {"x": 1.0}, "after": {"accuracy": 0.4, "auc": 1}}}
    assert metrics_of(view) == {"accuracy": 0.5, "auc": 1.0}


@pytest.mark.parametrize("metrics", [None, [], {"after": None}, {"after": {"auc": "0.5", "ok": True}}, {}])
def test_a_foreign_node_may_give_anything(metrics: Any) -> None:
    assert metrics_of({"metrics": metrics, "post_fedavg_accuracy": None}) == {}


def test_a_mean_is_over_the_nodes_that_have_the_figure() -> None:
    assert means([{"a": 0.5}, {"a": 1.0, "b": 0.25}]) == {"a": 0.75, "b": 0.25}


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


def logged(clock: Callable[[], float]) -> tuple[logging.Logger, io.StringIO]:
    """A logger as that of a node, and what it has written."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(CauseLimit(clock))
    log = logging.Logger("flnet.test")
    log.addHandler(handler)
    return log, out


def test_a_flood_of_one_cause_gives_few_lines_and_their_count() -> None:
    now = [0.0]
    log, out = logged(lambda: now[0])
    for number in range(10_000):
        log.info("%s%s", "", text("a request from {caller} was refused", f"192.0.2.{number}"))
    log.info("%s%s", "", text("{peer} is here", "b"))
    assert len(out.getvalue().splitlines()) == LINES + 1
    now[0] += 60
    for number in range(10_000):
        log.info("%s%s", "", text("a request from {caller} was refused", f"192.0.2.{number}"))
    lines = out.getvalue().splitlines()
    assert len(lines) == LINES + 1 + LINES_PER_MINUTE
    assert (
        lines[LINES + 1]
        == f"a request from 192.0.2.0 was refused ({10_000 - LINES} lines like this one were left out)"
    )
    assert lines[-1] == f"a request from 192.0.2.{LINES_PER_MINUTE - 1} was refused"


def test_tracebacks_are_fewer_and_lines_of_rounds_more() -> None:
    log, out = logged(lambda: 0.0)
    for number in range(JOB_LINES + 9):
        log.info("%s%s", "MNIST: ", text("round {number} closed", number), extra={"job": "MNIST"})
    assert len(out.getvalue().splitlines()) == JOB_LINES
    for number in range(100):
        log.error("GET /%s failed", number, exc_info=ValueError(str(number)))
    assert out.getvalue().count("ValueError") == TRACEBACKS


def test_with_all_that_is_debugged_nothing_is_left_out() -> None:
    log, out = logged(lambda: 0.0)
    for number in range(LINES + 9):
        log.debug("request %d", number)
    assert len(out.getvalue().splitlines()) == LINES + 9

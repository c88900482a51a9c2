from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from flnet.cli.commands import cli
from flnet.cli.models import BEFORE
from tests.cli.fake_node import FakeNode

Run = Callable[..., Result]
NEW, OLD = "cd" * 32, "ab" * 32


@pytest.fixture(autouse=True)
def listed(fake_node: FakeNode) -> None:
    common = {"contributors": 2, "bytes": 440_616, "exchanged_with": None}
    fake_node.models = [
        {"digest": NEW, "round": 4, "accuracy": 0.91, "held": True, "pinned": False, **common},
        {"digest": OLD, "round": 1, "accuracy": 0.9512, "held": False, "pinned": True, **common},
    ]


def test_they_are_listed_with_their_figures_and_marks(flnet: Run, fake_node: FakeNode) -> None:
    shown = flnet("models", "MNIST", "--node", fake_node.address)
    assert shown.exit_code == 0
    first, second = [line.split() for line in shown.output.splitlines() if "440616" in line]
    assert first == ["cdcdcdcdcd", "4", "2", "0.9100", "440616", "-", "in", "use"]
    assert second == ["ababababab", "1", "2", "0.9512", "440616", "-", "pinned"]
    assert fake_node.ordered == []


def test_scripts_get_the_list_as_the_node_gives_it(flnet: Run, fake_node: FakeNode) -> None:
    shown = flnet("models", "MNIST", "--json", "--node", fake_node.address)
    assert json.loads(shown.stdout) == fake_node.models


def test_an_untrained_model_has_no_round(flnet: Run, fake_node: FakeNode) -> None:
    fake_node.models = [
        {"digest": NEW, "round": -1, "contributors": 0, "accuracy": None, "bytes": 4, "held": True}
    ]
    shown = flnet("models", "MNIST", "--node", fake_node.address)
    (line,) = [line.split() for line in shown.output.splitlines() if "cdcd" in line]
    assert line == ["cdcdcdcdcd", "-", "0", "-", "4", "-", "in", "use"]


@pytest.mark.parametrize(
    ("option", "request_line"),
    [("--pin", f"PUT /jobs/MNIST/models/{OLD[:8]}/pin"), ("--unpin", f"DELETE /jobs/MNIST/models/{OLD[:8]}/pin")],
)
def test_a_model_is_pinned_and_unpinned(flnet: Run, fake_node: FakeNode, option: str, request_line: str) -> None:
    shown = flnet("models", "MNIST", option, OLD[:8], "--node", fake_node.address)
    assert (shown.exit_code, fake_node.ordered) == (0, [request_line])
    assert "pinned" in shown.output


def test_going_back_says_first_what_it_means_and_asks(fake_node: FakeNode) -> None:
    arguments = ["models", "MNIST", "--restore", OLD[:8], "--node", fake_node.address]
    refused = CliRunner().invoke(cli, arguments, input="n\n")
    assert (refused.exit_code, fake_node.ordered) == (1, [])
    assert "on all nodes if it is started at this node" in BEFORE
    assert BEFORE in refused.stderr
    done = CliRunner().invoke(cli, arguments, input="y\n")
    assert (done.exit_code, fake_node.ordered) == (0, [f"POST /jobs/MNIST/models/{OLD[:8]}/restore"])


def test_a_script_says_yes_beforehand(flnet: Run, fake_node: FakeNode) -> None:
    shown = flnet("models", "MNIST", "--restore", OLD, "--yes", "--json", "--node", fake_node.address)
    assert json.loads(shown.stdout) == fake_node.models
    assert fake_node.ordered == [f"POST /jobs/MNIST/models/{OLD}/restore"]


def test_a_refusal_is_told_in_the_words_of_the_node(flnet: Run, fake_node: FakeNode) -> None:
    fake_node.answer_to_order = (409, {"error": "job_busy", "message": "round 3 is still training here"})
    shown = flnet("models", "MNIST", "--restore", OLD, "--yes", "--node", fake_node.address)
    assert shown.exit_code == 1
    assert "round 3 is still training here" in shown.stderr


def test_one_thing_is_done_at_a_time(flnet: Run, fake_node: FakeNode) -> None:
    shown = flnet("models", "MNIST", "--pin", OLD, "--unpin", NEW, "--node", fake_node.address)
    assert (shown.exit_code, fake_node.ordered) == (2, [])
    assert "one of --pin, --unpin and --restore" in shown.stderr

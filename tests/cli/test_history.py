"""`flnet history` and `flnet audit`: rounds as a table or file, and the statements of contributors."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from flnet.cli.history import IN_SUM, LEFT_OUT, SIGNED, UNSIGNED, WRONG
from flnet.cli.output import mesh_words
from flnet.protocol.updates import Contribution
from tests.cli.fake_node import FakeNode, record
from tests.security.keypairs import TestKey

Flnet = Callable[..., Result]


def test_rounds_are_shown_with_what_was_decided(fake_node: FakeNode, ask: Flnet) -> None:
    decision = {"over": "given_up", "words": "it was the last round that was asked for"}
    first = record(0) | {"why": "5 new examples have come", "contributors": ["a", "b"], "bytes": {"sent": 7}}
    fake_node.records = [first, record(1) | {"decision": decision, "seconds": {"train": 1.25, "wait": 1}}]
    done = ask("history", "MNIST")
    assert done.exit_code == 0 and "2.25" in done.output
    assert "round 0 was started by the schedule: 5 new examples have come" in done.output
    assert "after round 1: the goal is given up: it was the last round that was asked for" in done.output


def test_a_round_that_this_node_has_no_part_in_is_no_round_of_0_nodes(fake_node: FakeNode, ask: Flnet) -> None:
    missed = record(0) | {"contributors": [], "taken_from": "a", "outcome": "took the average"}
    fake_node.records = [missed]
    (row,) = [line.split() for line in ask("history", "MNIST").output.splitlines() if "took the average" in line]
    assert row[2] == "-"


def test_nothing_is_a_history_too_and_scripts_get_json(ask: Flnet) -> None:
    assert "no rounds yet" in ask("history", "MNIST").output
    assert ask("history", "MNIST", "--json").output == "[]\n"


def test_one_round_is_told_step_by_step(fake_node: FakeNode, ask: Flnet) -> None:
    told = {
        "round": 3,
        "record": record(3) | {"initiator": "a", "outcome": "averaged 2 updates"},
        "steps": [
            {"seconds": 0.0, "node": "a", "text": "round 3 of MNIST was started by a"},
            {"seconds": 1.5, "node": "b\x1b[2J", "text": "update from b: 2 of 3"},
        ],
        "nodes": {"a": {"state": "counted", "why": ""}, "c": {"state": "left_out", "why": "it was too late"}},
        "missing": ["2 events of the time of this round are not kept any more."],
    }
    fake_node.answers["/jobs/MNIST/history/3"] = (200, json.dumps(told).encode())
    done = ask("history", "MNIST", "--round", "3")
    assert done.exit_code == 0 and "\x1b" not in done.output
    lines = [" ".join(line.split()) for line in done.output.splitlines()]
    assert lines[0] == (
        "round 3 of MNIST, started by a: averaged 2 updates; accuracy 0.5000 before averaging, 0.7500 after"
    )
    assert lines[1] == "2 events of the time of this round are not kept any more."
    assert lines[2] == "+0.00 s a: round 3 of MNIST was started by a"
    assert lines[3].startswith("+1.50 s b") and lines[3].endswith("update from b: 2 of 3")
    assert any("is not in the average" in line and "it was too late" in line for line in lines)
    assert json.loads(ask("history", "MNIST", "--round", "3", "--json").output) == told
    assert ask("history", "MNIST", "--round", "4").exit_code == 1
    assert ask("history", "MNIST", "--round", "3", "--last", "2").exit_code == 2
    fake_node.answers["/jobs/MNIST/history/5"] = (200, json.dumps({"round": 5, "record": None}).encode())
    assert "round 5 of MNIST is open, or has no record any more" in ask("history", "MNIST", "--round", "5").output


@pytest.mark.parametrize("form", ["csv", "svg", "png"])
def test_it_is_written_to_a_file_that_is_not_there(
    fake_node: FakeNode, flnet: Flnet, tmp_path: Path, form: str
) -> None:
    fake_node.files[f"/jobs/MNIST/history.{form}"] = (f"x.{form}", b"what came")
    target = tmp_path / f"h.{form}"
    options = ("history", "MNIST", f"--{form}", "--output", str(target), "--node", fake_node.address)
    assert (flnet(*options).exit_code, target.read_bytes()) == (0, b"what came")
    assert flnet(*options).exit_code == 2
    assert flnet(*options, "--force").exit_code == 0


def test_it_goes_to_stdout_for_scripts(fake_node: FakeNode, ask: Flnet) -> None:
    fake_node.files["/jobs/MNIST/history.csv?last=3"] = ("x.csv", b"round\n")
    done = ask("history", "MNIST", "--csv", "--last", "3", "--output", "-")
    assert (done.exit_code, done.stdout) == (0, "round\n")


def test_output_needs_a_form(ask: Flnet) -> None:
    assert ask("history", "MNIST", "--force").exit_code == 2


Run = Callable[..., Result]
AVERAGE = "ab" * 32


def stated(peer: str = "b", seed: int = 7) -> Contribution:
    """A signed contribution to round 0 that "a" started."""
    signer = TestKey(seed)
    plain = Contribution(peer, "MNIST", 0, "a", "1" * 64, "2" * 64, "3" * 64, 40, key=signer.text)
    return replace(plain, signature=base64.b64encode(signer.sign(plain.statement())).decode())


def audited(*views: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A record of round 0 that these contributed to."""
    return {"round": 0, "initiator": "a", "digest": AVERAGE, "contributions": list(views), **more}


@pytest.fixture
def node(fake_node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Let the node answer with these records; its address."""

    def answer(*records: dict[str, Any]) -> str:
        monkeypatch.setattr("flnet.cli.client.NodeClient.history", lambda self, trainer, last: list(records))
        return fake_node.address

    return answer


def test_who_contributed_is_listed_with_keys_and_verdicts(flnet: Run, node: Callable[..., str]) -> None:
    unsigned = replace(stated("c"), signature="").view()
    address = node(audited(stated().view(), unsigned, {"peer": "old", "examples": None}))
    shown = flnet("audit", "MNIST", "--node", address)
    assert shown.exit_code == 0
    lines = [line.split() for line in shown.output.splitlines() if "ababab" in line]
    assert [line[2] for line in lines] == ["b", "c", "old"]
    assert lines[0][-3:] == ["40", "-", SIGNED]
    assert " ".join(lines[1][-4:]) == f"40 - {UNSIGNED}"
    assert " ".join(lines[2][-4:]) == f"- - {UNSIGNED}"


def test_weights_are_shown_and_who_was_left_out(flnet: Run, node: Callable[..., str]) -> None:
    weighed = {"b": {"weight": 0.625}, "c\x1b": {"weight": 0.0, "reason": "it moved 9"}, "d": {"norm": 1.0}}
    address = node(audited(stated().view(), stated("d").view(), weighed=weighed))
    shown = flnet("audit", "MNIST", "--node", address)
    assert "round 0: c\\x1b was left out: it moved 9" in shown.output
    result = json.loads(flnet("audit", "MNIST", "--json", "--node", address).stdout)
    assert [(each["peer"], each["weight"], each["verdict"]) for each in result] == [
        ("c\x1b", 0.0, LEFT_OUT),
        ("b", 0.625, SIGNED),
        ("d", None, SIGNED),
    ]
    assert "62.5 %" in shown.output


def test_of_a_secure_sum_there_are_contributors_and_no_statements(flnet: Run, node: Callable[..., str]) -> None:
    words = "only the sum of 2 updates was opened; 2 of 3 nodes are needed to open one"
    secure = {"members": ["a", "b", "c"], "threshold": 2, "words": words}
    plain = audited({"peer": "old", "examples": 3})
    masked = audited({"peer": "a", "examples": None}, {"peer": "b", "examples": None}, round=1, secure=secure)
    address = node(plain, masked)
    shown = flnet("audit", "MNIST", "--node", address)
    assert shown.exit_code == 0
    assert f"secure sum of round 1: {words}" in shown.output
    assert "agreed by vote" in " ".join(shown.output.split())
    result = json.loads(flnet("audit", "MNIST", "--json", "--node", address).stdout)
    assert [(each["peer"], each["verdict"]) for each in result] == [
        ("old", UNSIGNED),
        ("a", IN_SUM),
        ("b", IN_SUM),
    ]
    assert "vote" not in flnet("audit", "MNIST", "--node", node(plain)).output
    history = flnet("history", "MNIST", "--node", node(masked | {"outcome": "averaged 2 updates"}))
    assert f"secure sum of round 1: {words}" in history.output


@pytest.mark.parametrize("weighed", [None, [], 7, {"b": 7}, {"b": {"weight": "x", "reason": 0}}, {"x": None}])
def test_weights_that_are_none_do_no_harm(flnet: Run, node: Callable[..., str], weighed: object) -> None:
    shown = flnet("audit", "MNIST", "--node", node(audited(stated().view(), weighed=weighed)))
    assert shown.exit_code == 0
    assert SIGNED in shown.output


@pytest.mark.parametrize(
    "view",
    [
        {**stated().view(), "examples": 41},
        {**stated().view(), "peer": "c"},
        {**stated().view(), "key": TestKey(8).text},
        {**stated().view(), "key": "no key"},
        {**stated().view(), "signature": "%"},
        {**stated().view(), "signature": stated("c").signature},
        {**stated().view(), "labels": "1"},
    ],
)
def test_what_was_changed_is_wrong_and_the_command_fails(
    flnet: Run, node: Callable[..., str], view: dict[str, Any]
) -> None:
    shown = flnet("audit", "MNIST", "--json", "--node", node(audited(stated("c").view(), view)))
    assert shown.exit_code == 1
    assert [each["verdict"] for each in json.loads(shown.stdout)] == [SIGNED, WRONG]


def test_one_model_may_be_asked_for(flnet: Run, node: Callable[..., str]) -> None:
    address = node(audited(stated().view()), audited({"peer": "x", "examples": 1}, digest="cd" * 32))
    shown = flnet("audit", "MNIST", "--model", "CDCD", "--json", "--node", address)
    assert [each["peer"] for each in json.loads(shown.stdout)] == ["x"]


def test_rounds_of_older_versions_say_nothing(flnet: Run, node: Callable[..., str]) -> None:
    shown = flnet("audit", "MNIST", "--node", node({"round": 0, "initiator": "a", "digest": AVERAGE}))
    assert (shown.exit_code, shown.output) == (0, "no round here says who contributed to it\n")


@pytest.mark.parametrize("given", [(), ("MNIST", "--card", "pyproject.toml")])
def test_a_trainer_or_a_card_is_needed(flnet: Run, given: tuple[str, ...]) -> None:
    assert flnet("audit", *given).exit_code == 2


@pytest.mark.parametrize("text", ["", "```json\n{no}\n```", '```json\n{"contributions": 1}\n```', "\0\xff"])
def test_a_card_without_contributions_is_told(flnet: Run, tmp_path: Path, text: str) -> None:
    card = tmp_path / "card.md"
    card.write_text(text)
    shown = flnet("audit", "--card", str(card))
    assert shown.exit_code == 1
    assert "does not say who contributed" in shown.output


MESH = {
    **{"accuracy": 0.8765, "basis": "counts", "examples": 1014, "nodes": 3, "figures": {"f1_macro": 0.81}},
    **{"worst": {"node": "b", "accuracy": 0.25}, "spread": 0.125, "jain": 0.9},
    "groups": {"small": {"accuracy": 0.5, "examples": 10, "nodes": 1}},
}


def test_the_figures_of_all_nodes_are_shown_and_by_what_they_count(fake_node: FakeNode, ask: Flnet) -> None:
    decision = {"over": None, "words": "accuracy>=0.99 does not hold yet", "rows": "validation"}
    fake_node.records = [record(0), record(1) | {"mesh": MESH, "decision": decision}]
    output = " ".join(ask("history", "MNIST").output.split())
    assert "mesh of round 1: 0.8765 on 1014 test rows of 3 nodes; f1_macro 0.8100; " in output
    assert "lowest 0.2500 (b), sd 0.1250, Jain 0.9000, small 0.5000 of 10" in output
    assert "accuracy>=0.99 does not hold yet (on validation rows)" in output
    assert mesh_words({**MESH, "basis": "examples"}) == "0.8765, mean of 3 nodes weighted by 1014 test rows"
    assert mesh_words({**MESH, "basis": "nodes"}) == "0.8765, plain mean of 3 nodes"
    assert mesh_words("damaged") == "-"

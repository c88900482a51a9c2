from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.shell_completion import ShellComplete
from click.testing import Result

from flnet.cli.commands import COMMANDS, cli, exit_code
from flnet.errors import FlnetError, PeerRefused, PeerTimeout, PeerUnreachable, SettingsError, StartError
from flnet.rounds.settings import Rules
from tests.cli.fake_node import FakeNode, job, measured, record

Run = Callable[..., Result]
ASKING = {
    "status": (),
    "peers": (),
    "train": ("MNIST",),
    "watch": (),
    "params": ("MNIST",),
    "export": ("MNIST",),
    "models": ("MNIST",),
}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SettingsError("x"), 2),
        (StartError("x"), 1),
        (PeerRefused(409, "job_busy", "x"), 1),
        (PeerTimeout("x"), 3),
        (PeerUnreachable("x"), 3),
    ],
)
def test_each_kind_of_failure_has_its_code(error: FlnetError, code: int) -> None:
    assert exit_code(error) == code


def test_help_lists_every_command_and_the_codes(flnet: Run) -> None:
    shown = flnet("--help")
    assert shown.exit_code == 0
    assert all(name in shown.output for name in COMMANDS)
    assert "3 the node cannot be reached" in shown.output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_documents_its_exit_codes(flnet: Run, name: str) -> None:
    shown = flnet(name, "--help")
    assert shown.exit_code == 0
    assert "Exit codes: 0" in shown.output


def test_an_unknown_command_is_wrong_usage(flnet: Run) -> None:
    assert flnet("fly").exit_code == 2


@pytest.mark.parametrize("name", ASKING)
def test_no_node_there(flnet: Run, nobody: str, name: str) -> None:
    shown = flnet(name, *ASKING[name], "--node", nobody)
    assert shown.exit_code == 3
    assert nobody in shown.stderr
    assert shown.stdout == ""


@pytest.mark.parametrize("name", ASKING)
def test_a_wrong_address_is_wrong_usage(flnet: Run, name: str) -> None:
    assert flnet(name, *ASKING[name], "--node", "nowhere").exit_code == 2


def test_the_port_of_the_environment_is_asked(
    flnet: Run, fake_node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLNET_NODE_PORT", fake_node.address.rpartition(":")[2])
    assert flnet("status").exit_code == 0


def test_status_for_people(ask: Run, fake_node: FakeNode) -> None:
    fake_node.views = [job(current_round=2, post_fedavg_accuracy=0.875, digest="0123456789abcdef")]
    fake_node.peer_views = [
        {"id": "b", "state": "alive"},
        {"id": "c", "state": "dead"},
        {"id": "d", "state": "left"},
    ]
    shown = ask("status")
    assert shown.exit_code == 0
    assert "node-a at" in shown.output
    assert "1 of 2 peers alive" in shown.output
    assert "0.8750" in shown.output
    assert "0123456789" in shown.output
    assert "sample data: bundled digits" in shown.output


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"error": "no data in \x1b[31m"}, r"no data in \x1b[31m"),
        ({"waiting_for": ["node-b", "[red]c"]}, "waiting for node-b, [red]c"),
        ({"late": ["node-d"]}, "still training, counts in a later round: node-d"),
        ({"outcome": "averaged 4 updates"}, "averaged 4 updates"),
    ],
)
def test_status_notes(ask: Run, fake_node: FakeNode, changes: dict[str, object], note: str) -> None:
    fake_node.views = [job(**changes)]
    assert note in ask("status").output


def test_figures_of_an_older_round_say_so(ask: Run, fake_node: FakeNode) -> None:
    fake_node.views = [
        job(current_round=3, figures_round=2, post_fedavg_accuracy=0.5, metrics={"after": {"auc": 0.25}})
    ]
    shown = ask("status").output
    assert "0.5000 (round 2)" in shown
    assert "MNIST after averaging in round 2: auc 0.2500" in shown
    fake_node.views = [job(current_round=3, figures_round=3, post_fedavg_accuracy=0.5)]
    assert "round 3)" not in ask("status").output


def test_status_tells_the_further_figures(ask: Run, fake_node: FakeNode) -> None:
    assert "averaging" not in ask("status").output
    many = {f"n{i}": 0.5 for i in range(7)}
    fake_node.views = [job(metrics={"before": many, "after": {}})]
    shown = ask("status").output
    assert "MNIST before averaging: n0 0.5000" in shown
    assert "and 1 more (--metrics all)" in shown
    fake_node.views = [job(metrics={"before": many, "after": many | {"f1_macro": 0.25}})]
    shown = ask("status", "--metrics", "all").output
    assert "MNIST after averaging: f1_macro 0.2500, n0 0.5000" in shown
    assert "n6 0.5000" in shown


def test_status_tells_versions_where_there_are_no_common_rounds(ask: Run, fake_node: FakeNode) -> None:
    assert "version" not in ask("status").output
    merged = {"peer": "b", "version": 7, "merged": 6, "into": 9, "at": 0.0, "newer": True, "reachable": True}
    heard = {
        "peer": "c",
        "version": 1,
        "merged": None,
        "into": None,
        "at": None,
        "newer": True,
        "reachable": False,
    }
    fake_node.views = [job(versions={"own": 9, "peers": [merged, heard]})]
    shown = ask("status").output
    assert "MNIST has version 9 here; there are no common rounds" in shown
    assert "MNIST b: version 7, 6 merged into 9 at " in shown
    assert "MNIST c: version 1, none merged (does not answer)" in shown


def test_status_tells_how_far_models_are_apart_where_nodes_average_with_neighbours(
    ask: Run, fake_node: FakeNode
) -> None:
    assert "model of its own" not in ask("status").output
    fake_node.views = [job(spread=0.0512, figures_round=4)]
    words = "in round 4 the distance of neighbours was 5.12%, before averaging"
    assert f"MNIST: each node holds a model of its own; {words}" in ask("status").output


def test_status_names_whose_updates_count_little_and_why(ask: Run, fake_node: FakeNode) -> None:
    row = {"since": 3, "fair": 0.25, "reason": ""}
    little = [{"peer": "b", "weight": 0.004, **row}, {"peer": "c", "weight": 0.0, **row, "reason": "it moved 9"}]
    fake_node.views = [job(merging_rule="median", counts_little=little)]
    shown = ask("status").output
    assert "MNIST aggregates by median\n" in shown
    assert "MNIST: updates of b count little since round 3 (weight 0.4 %, 25.0 % was fair)" in shown
    assert "MNIST: updates of c count little since round 3 (left out: it moved 9)" in shown
    fake_node.views = [job(merging_rule="krum:9", rule_needs=21)]
    needs = "which needs 21 updates; nodes in the mesh: 1; the coordinate-wise median is taken"
    assert f"MNIST aggregates by krum:9, {needs}\n" in ask("status").output
    fake_node.views = [job(topology="segments:3")]
    assert "MNIST has the topology segments:3\n" in ask("status").output
    for usual in ("mesh", ""):  # a node of an earlier version says nothing of a full mesh
        fake_node.views = [job(topology=usual)]
        assert "topology" not in ask("status").output
    fake_node.views = [job(merging_rule="krum:0", rule_needs=1)]
    assert "MNIST aggregates by krum:0\n" in ask("status").output
    fake_node.views = [job(merging_rule=Rules().merging)]
    shown = ask("status").output
    assert "merges" not in shown
    assert "little" not in shown


def test_status_for_scripts(ask: Run) -> None:
    shown = ask("status", "--json")
    assert json.loads(shown.output)["iAm"]["id"] == "node-a"


def test_peers(ask: Run, fake_node: FakeNode) -> None:
    assert "no peers yet" in ask("peers").output
    fake_node.peer_views = [{"id": "n\n1", "address": "127.0.0.1:4001", "state": "dead", "reason": "refused"}]
    fake_node.peer_views[0]["fingerprint"] = "AAAAA-BBBBB"
    shown = ask("peers").output
    assert r"n\n1" in shown
    assert "dead" in shown
    assert "AAAAA-BBBBB" in shown
    assert json.loads(ask("peers", "--json").output) == fake_node.peer_views
    assert "mesh key" not in shown


def test_peers_tells_who_still_signs_with_the_second_mesh_key(ask: Run, fake_node: FakeNode) -> None:
    states = {"a": ("alive", True), "b": ("alive", False), "c": ("dead", False)}
    fake_node.peer_views = [
        {"id": name, "address": "127.0.0.1:4001", "state": state, "signs_with_other_key": second}
        for name, (state, second) in states.items()
    ]
    shown = ask("peers").output
    assert (shown.count("mesh key"), shown.count("second"), shown.count("first")) == (1, 1, 1)


def test_train_starts_rounds(ask: Run, fake_node: FakeNode) -> None:
    shown = ask("train", "MNIST", "--rounds", "3")
    assert shown.exit_code == 0
    assert "rounds 0 to 2 of MNIST started" in shown.output
    assert fake_node.posted == [{"trainerId": "MNIST", "rounds": 3}]


def test_train_for_scripts(ask: Run) -> None:
    shown = ask("train", "MNIST", "--json")
    assert json.loads(shown.output) == {"trainerId": "MNIST", "round": 0, "rounds": 1}


def test_train_and_wait_shows_the_results_with_the_further_figures(ask: Run, fake_node: FakeNode) -> None:
    fake_node.views = [job(phase="TRAINING", current_round=0), job(current_round=0)]
    fake_node.records = [measured(0, 0.75, **{f"n{i}": 0.25 for i in range(7)}) | {"digest": "feedface00"}]
    few, every = ask("train", "MNIST", "--wait"), ask("train", "MNIST", "--wait", "--metrics", "all")
    assert few.exit_code == every.exit_code == 0
    assert all(text in few.output for text in ("feedface00", "0.7500", "n5"))
    assert "n6" not in few.output
    assert "n6" in every.output


def test_train_and_wait_for_scripts(ask: Run, fake_node: FakeNode) -> None:
    fake_node.views = [job(current_round=0)]
    fake_node.records = [record(0)]
    shown = ask("train", "MNIST", "--wait", "--json")
    [result] = json.loads(shown.stdout)
    assert result["number"] == 0
    assert result["post"]["mean"] == 0.75
    assert result["digests"] == {"node-a": "d1"}


def test_train_and_wait_for_a_round_that_fails(ask: Run, fake_node: FakeNode) -> None:
    fake_node.views = [job(phase="TRAINING", current_round=0), job(current_round=0, error="out of memory")]
    shown = ask("train", "MNIST", "--wait")
    assert shown.exit_code == 1
    assert "out of memory" in shown.stderr


def test_train_and_wait_for_a_round_that_ends_in_an_error(ask: Run, fake_node: FakeNode) -> None:
    fake_node.views, fake_node.records = [job(current_round=0)], [record(0) | {"error": "averaging failed"}]
    shown = ask("train", "MNIST", "--wait", "--json")
    assert shown.exit_code == 1
    assert json.loads(shown.stdout)[0]["errors"] == {"node-a": "averaging failed"}
    assert "round 0 failed: node-a averaging failed" in shown.stderr


def test_watch_prints_lines_until_the_feed_ends(ask: Run, fake_node: FakeNode) -> None:
    fake_node.events = [{"id": 1, "at": 0.5, "kind": "x", "text": "node-b joined\x07", "trainer": "MNIST"}]
    shown = ask("watch")
    assert shown.exit_code == 3
    assert shown.stdout.endswith("MNIST: node-b joined\\x07\n")
    assert "ended the feed" in shown.stderr


def test_watch_for_scripts(ask: Run, fake_node: FakeNode) -> None:
    fake_node.events = [{"id": 7}, {"id": 8}]
    shown = ask("watch", "--json", "--after", "6")
    assert [json.loads(line)["id"] for line in shown.stdout.splitlines()] == [7, 8]
    assert fake_node.headers[-1]["Last-Event-ID"] == "6"


@pytest.mark.parametrize(
    ("words", "begun", "completed"),
    [
        ((), "tra", ["train"]),
        (("export", "MNIST", "--format"), "o", ["onnx"]),
        (("history", "MNIST"), "--la", ["--last"]),
    ],
)
def test_shells_complete_commands_options_and_choices(
    words: tuple[str, ...], begun: str, completed: list[str]
) -> None:
    shell = ShellComplete(cli, {}, "flnet", "_FLNET_COMPLETE")
    assert [item.value for item in shell.get_completions(list(words), begun)] == completed

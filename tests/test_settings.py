"""Which settings of rounds go together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from flnet.errors import SettingsError
from flnet.fingerprints import fingerprint, key_text
from flnet.node.build import rules_of
from flnet.settings import (
    PREFIX,
    Folder,
    Hosts,
    Names,
    PortRange,
    Settings,
    Shard,
    check_host_name,
    check_local_training,
    check_partition,
    check_personal_model,
    load_settings,
    split_list,
)


def test_a_list_is_text_with_commas_or_a_list() -> None:
    assert split_list(" a, b,,") == ("a", "b")
    assert (
        TypeAdapter(Names).validate_python("a,b") == TypeAdapter(Names).validate_python(["a", "b"]) == ("a", "b")
    )


def test_a_folder_may_begin_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ana")
    assert TypeAdapter(Folder).validate_python("~/data") == Path("/home/ana/data")


def test_the_home_of_nobody_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="'~0/data' names the home of a user that this machine does not know"):
        TypeAdapter(Folder).validate_python("~0/data")


def test_a_name_of_a_host_is_in_small_letters() -> None:
    assert TypeAdapter(Hosts).validate_python("FL.example, b") == ("fl.example", "b")
    with pytest.raises(ValueError, match=r"host|name|address"):
        check_host_name("a b")


@pytest.mark.parametrize("text", ["iid", "groups", " dirichlet:0.3 ", "pathological:2", "quantity:0.5", "power:1"])
def test_a_partition_is_one_of_six_forms(text: str) -> None:
    assert check_partition(text) == text.strip()


@pytest.mark.parametrize("text", ["", "iid:1", "dirichlet", "dirichlet:-1", "power:1e3", "dirichlet:0.3; rm"])
def test_other_partitions_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected iid, groups, dirichlet:0\.3"):
        check_partition(text)


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/0", "-1/3", "1/3/5", "٣/٩", "²/3", "a/b"])
def test_other_shards_are_refused(text: str) -> None:
    with pytest.raises(ValidationError, match='expected "i/n" with 1 <= i <= n'):
        Shard.model_validate(text)


@pytest.mark.parametrize("text", ["plain", " proximal ", "proximal:0.01", "proximal:2"])
def test_local_training_is_plain_or_held_back(text: str) -> None:
    assert check_local_training(text) == text.strip()


@pytest.mark.parametrize("text", ["", "proximal:", "proximal:-1", "proximal:nan", "fedprox", "plain:1"])
def test_other_local_training_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected plain, proximal or proximal:0.01"):
        check_local_training(text)


@pytest.mark.parametrize(
    "text", ["none", "apfl", "apfl:1", "apfl:0.25:0.01", "apfl:0.5:0.01:adam", "increment", "increment:5"]
)
def test_personal_models_have_three_forms(text: str) -> None:
    assert check_personal_model(text) == text


@pytest.mark.parametrize(
    "text", ["", "apfl:2", "apfl:0.5:0.01:lbfgs", "increment:0", "increment:1.5", "increment:"]
)
def test_other_personal_models_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected none, apfl, apfl:0.5:0.01"):
        check_personal_model(text)


# Settings: which source wins, and that a wrong one is named with the rule that it broke.


ZEROS = key_text(bytes(32))
MARK = fingerprint(ZEROS)


def refused(
    environ: dict[str, str] | None = None,
    options: dict[str, Any] | None = None,
    file: dict[str, Any] | None = None,
) -> str:
    with pytest.raises(SettingsError) as refusal:
        load_settings(options or {}, environ or {}, file)
    return refusal.value.message


# --- sources


def test_nothing_given_is_the_default() -> None:
    result = load_settings({}, {"PATH": "/bin", "flnet_seed": "3"})
    assert result == Settings()
    assert (result.node_port, result.listen_address, result.bootstrap_pairs) == (4000, "127.0.0.1", ())


def test_nodes_share_a_training_process_only_where_there_is_one_to_have_it_from(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"FLNET_COMPUTE=shared needs .* set FLNET_FORK_SERVER, as flnet demo does"
    ):
        load_settings({}, {"FLNET_COMPUTE": "shared"})
    environ = {"FLNET_COMPUTE": "shared", "FLNET_FORK_SERVER": str(tmp_path / "socket")}
    assert load_settings({}, environ).compute == "shared"


def test_an_option_beats_a_variable_beats_the_file() -> None:
    file, environ, options = (
        {"node_port": 1, "seed": 1, "compute": "thread"},
        {"FLNET_NODE_PORT": "2"},
        {"seed": 3},
    )
    environ["FLNET_SEED"] = "2"
    result = load_settings(options, environ, file)
    assert (result.node_port, result.seed, result.compute) == (2, 3, "thread")


def test_where_a_value_comes_from_is_remembered() -> None:
    file = {"node_port": 1, "seed": 1, "compute": "thread"}
    environ = {"FLNET_NODE_PORT": "2", "FLNET_SEED": "2", "FLNET_NODE_ID": ""}
    result = load_settings({"seed": 3, "wire": None, "trainers": ()}, environ, file)
    named = ("compute", "node_port", "seed", "node_id", "wire", "trainers")
    assert [result.source_of(name) for name in named] == [
        *("file", "variable", "option"),
        *("default", "default", "default"),
    ]
    assert Settings().source_of("seed") == "default"
    copied = result.model_copy(update={"node_id": "n"})
    assert (copied.source_of("seed"), copied.model_dump().keys()) == ("option", Settings.model_fields.keys())


def test_an_option_that_is_false_counts() -> None:
    environ = {"FLNET_PRUNE_UNRESPONSIVE_NODES": "true"}
    assert load_settings({}, environ).prune_unresponsive_nodes
    assert not load_settings({"prune_unresponsive_nodes": False}, environ).prune_unresponsive_nodes


def test_every_setting_can_come_as_a_variable() -> None:
    written = {
        "allowed_networks": "10.1.0.0/16, fd00::/8",
        "node_id": "n",
        "node_ip": "10.0.0.1",
        "bootstrap_pairs": "127.0.0.1:4001, localhost:4002",
        "relay": "10.0.0.2:9200",
        "relay_ports": "9200-9219",
        "join": "flnet://127.0.0.1:4003/?mesh=ward&mode=open",
        "data_shard": "2/10",
        "data_partition": "dirichlet:0.3",
        "local_epochs": "3",
        "local_batch_size": "16",
        "local_learning_rate": "0.005",
        "max_training_seconds": "7.5",
        "trainers": "MNIST, CIFAR10,",
        "allowed_hosts": "FL.example, node-a",
        "operator_token": "0123456789abcdef",
        "mesh_mode": "open",
        "trusted_peers": "",
        "introducers": "",
        "notify_url": "https://127.0.0.1/hook",
        "notify_secret": "0123456789abcdef",
        "notify_mail": "smtps://127.0.0.1?to=ana@example.org",
    }
    for name, info in Settings.model_fields.items():
        text = written.get(name, str(info.default) if info.default is not None else "x")
        variables = {PREFIX + name.upper(): text}
        if name.startswith("other_mesh_key"):
            variables[f"{PREFIX}MESH_KEY"] = "k"  # which comes first
        if name.startswith("notify_secret"):
            variables[f"{PREFIX}NOTIFY_URL"] = written["notify_url"]  # what it signs
        result = getattr(load_settings({}, variables), name)
        assert result is not None, name
    apart = ("relay", "relay_ports")  # neither goes with the other, and the first not with an address
    both = load_settings({}, {PREFIX + n.upper(): text for n, text in written.items() if n not in apart})
    assert both.allowed_hosts == ("fl.example", "node-a")
    assert both.bootstrap_pairs == ("127.0.0.1:4001", "localhost:4002", "127.0.0.1:4003")
    assert both.trainers == ("MNIST", "CIFAR10")
    assert both.data_shard == Shard(index=2, count=10)


def test_a_key_makes_a_mesh_keyed() -> None:
    assert Settings().mode == "open"
    assert Settings(mesh_mode="open").mode == "open"
    assert Settings(mesh_key="k").mode == "keyed"
    assert Settings(mesh_key_file=Path("k"), mesh_mode="keyed").mode == "keyed"


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"MESH_MODE": "keyed"}, "needs a FLNET_MESH_KEY"),
        ({"MESH_MODE": "open", "MESH_KEY": "swordfish"}, "no use for a key"),
        ({"MESH_MODE": "open", "MESH_KEY_FILE": "swordfish"}, "no use for a key"),
        ({"MESH_KEY": "swordfish", "MESH_KEY_FILE": "swordfish"}, "not both"),
        ({"OTHER_MESH_KEY": "swordfish"}, "FLNET_OTHER_MESH_KEY needs a FLNET_MESH_KEY"),
        (
            {"MESH_MODE": "pinned", "OTHER_MESH_KEY_FILE": "swordfish"},
            "FLNET_OTHER_MESH_KEY needs a FLNET_MESH_KEY",
        ),
        ({"MESH_KEY": "k", "OTHER_MESH_KEY": "swordfish", "OTHER_MESH_KEY_FILE": "swordfish"}, "not both"),
        ({"MESH_MODE": "closed"}, "'open', 'keyed' or 'pinned'"),
        ({"MESH_MODE": "pinned", "MESH_KEY": "swordfish"}, "no use for a mesh key"),
        ({"TRUSTED_PEERS": MARK}, "need FLNET_MESH_MODE=pinned"),
        ({"INTRODUCERS": MARK}, "need FLNET_MESH_MODE=pinned"),
        ({"MESH_MODE": "pinned", "TRUSTED_PEERS": MARK[:-1] + "A"}, "group 13"),
        ({"MESH_MODE": "pinned", "TRUSTED_PEERS": "swordfish"[:4]}, "13 groups"),
    ],
)
def test_a_mode_that_does_not_fit_the_key_stops_the_start(variables: dict[str, str], words: str) -> None:
    message = refused({f"FLNET_{name}": value for name, value in variables.items()})
    assert words in message and "swordfish" not in message


def test_a_pinned_mesh_takes_fingerprints_however_typed_and_keys() -> None:
    result = load_settings(
        {},
        {
            "FLNET_MESH_MODE": "pinned",
            "FLNET_TRUSTED_PEERS": f" {MARK.lower()},{ZEROS}",
            "FLNET_INTRODUCERS": MARK,
        },
    )
    assert result.mode == "pinned"
    assert result.trusted_peers == (MARK, MARK) and result.introducers == (MARK,)


@pytest.mark.parametrize("token", ["swordfish", "swordfish swordfish", "swordfish\nswordfish", "s" * 513])
def test_a_token_is_long_enough_and_is_never_repeated_in_words(token: str) -> None:
    words = refused({"FLNET_OPERATOR_TOKEN": token})
    assert words.startswith("FLNET_OPERATOR_TOKEN=***: ")
    assert "swordfish" not in words


def test_a_token_comes_as_itself_or_in_a_file() -> None:
    both = {"FLNET_OPERATOR_TOKEN": "0123456789abcdef", "FLNET_OPERATOR_TOKEN_FILE": "/run/secrets/token"}
    assert refused(both) == "give FLNET_OPERATOR_TOKEN or FLNET_OPERATOR_TOKEN_FILE, not both"


def test_lists_may_be_arrays_in_the_file() -> None:
    result = load_settings({}, {}, {"trainers": ["MNIST"], "bootstrap_pairs": ["127.0.0.1:1"], "state_path": "x"})
    assert (result.trainers, result.bootstrap_pairs, result.state_path) == (
        ("MNIST",),
        ("127.0.0.1:1",),
        Path("x"),
    )


def test_every_setting_says_what_it_is_for() -> None:
    for name, info in Settings.model_fields.items():
        assert info.description, name
        assert info.description.endswith("."), name


# --- refusals


@pytest.mark.parametrize(
    ("variable", "value", "rule"),
    [
        ("NODE_PORT", "0", "greater than or equal to 1"),
        ("NODE_PORT", "70000", "less than or equal to 65535"),
        ("NODE_PORT", "http", "valid integer"),
        ("NODE_ID", "x" * 65, "1 to 64 characters, not 65"),
        ("NODE_ID", "a\n", "printable"),
        ("NODE_IP", "10.0.0.1/x", "IP address or a host name"),
        ("REQUEST_TIMEOUT_IN_SECONDS", "0", "greater than 0"),
        ("REQUEST_TIMEOUT_IN_SECONDS", "nan", "finite"),
        ("WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG", "inf", "finite"),
        ("WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG_MARGIN", "-1", "greater than or equal to 0"),
        ("PRUNE_UNRESPONSIVE_NODES", "perhaps", "boolean"),
        ("AGGREGATION", "agg3", "expected agg0, agg1, agg2, median"),
        ("COMPUTE", "gpu", "'process', 'thread' or 'shared'"),
        ("LOGGING_LEVEL", "LOUD", "'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
        ("DATA_SHARD", "0/3", '"i/n" with 1 <= i <= n'),
        ("DATA_PARTITION", "dirichlet", "expected iid, groups, dirichlet:0.3"),
        ("DEVICE", "gpu", "'auto', 'cpu', 'cuda' or 'mps'"),
    ],
)
def test_a_wrong_value_is_named_with_its_rule(variable: str, value: str, rule: str) -> None:
    words = refused({PREFIX + variable: value})
    assert words.startswith(f"{PREFIX}{variable}={value}: ")
    assert rule in words


@pytest.mark.parametrize(
    "pair", ["127.0.0.1", "127.0.0.1:", ":4000", "a:0", "a:65536", "a:²", "a b:1", "a/b:1", "a:1:2"]
)
def test_a_wrong_pair_is_named(pair: str) -> None:
    words = refused({"FLNET_BOOTSTRAP_PAIRS": f"127.0.0.1:4001,{pair}"})
    assert f"FLNET_BOOTSTRAP_PAIRS={pair}: " in words


def test_an_error_names_the_source_that_won() -> None:
    assert refused(options={"node_port": 0}, environ={"FLNET_NODE_PORT": "5"}).startswith("--node-port=0: ")
    assert refused(file={"node_port": 0}).startswith("node_port in flnet.toml=0: ")
    assert refused(file={"data_shard": {"index": 5, "count": 2}}).startswith("data_shard in flnet.toml=")


def test_unknown_names_are_named_with_the_nearest() -> None:
    words = refused({"FLNET_NODE_PROT": "1", "FLNET_ZZZ": "1"}, file={"node_prt": 1, "qqq": 2})
    assert "FLNET_NODE_PROT is no setting; did you mean FLNET_NODE_PORT?" in words
    assert "node_prt in flnet.toml is no setting; did you mean node_port?" in words
    assert "qqq in flnet.toml is no setting; FLNET" in words
    assert words.endswith("FLNET_ZZZ is no setting")


def test_all_problems_come_at_once() -> None:
    words = refused({"FLNET_NODE_PORT": "0", "FLNET_SEED": "-1", "FLNET_NOPE": "1"})
    assert all(name in words for name in ("FLNET_NODE_PORT=0", "FLNET_SEED=-1", "FLNET_NOPE"))


def test_a_node_that_nobody_could_reach_does_not_start() -> None:
    far = {"FLNET_BOOTSTRAP_PAIRS": "10.0.0.7:4000"}
    assert "set FLNET_LISTEN_ADDRESS=0.0.0.0 too" in refused(far)
    assert load_settings({}, {**far, "FLNET_LISTEN_ADDRESS": "0.0.0.0"}).bootstrap_pairs == ("10.0.0.7:4000",)
    for near in ("127.0.0.2:1", "[::1]:2", "localhost:3"):
        load_settings({}, {"FLNET_BOOTSTRAP_PAIRS": near})


variables = st.sampled_from([PREFIX + name.upper() for name in Settings.model_fields] + ["FLNET_X", "OTHER"])


@given(st.dictionaries(variables, st.text(max_size=12), max_size=5))
def test_any_environment_gives_settings_or_a_settings_error(environ: dict[str, str]) -> None:
    try:
        result = load_settings({}, environ)
    except SettingsError:
        return
    assert isinstance(result, Settings)


# --- relays


def test_ports_of_a_relay_read_as_they_are_written() -> None:
    ports = PortRange.model_validate("9200-9219")
    assert (str(ports), len(ports.ports), ports.ports[0], ports.ports[-1]) == ("9200-9219", 20, 9200, 9219)


@pytest.mark.parametrize(
    "text", ["", "9200", "9200-9201", "9219-9200", "80-90", "65000-65536", "1024-2024", "a-b", "1-"]
)
def test_other_ports_of_a_relay_are_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="3 to 1000 ports from 1024 to 65535"):
        PortRange.model_validate(text)


def test_a_node_is_reached_in_one_way() -> None:
    relay = {"relay": "10.0.0.1:9200"}
    elsewhere = {"bootstrap_pairs": "10.0.0.1:4000"}  # needs no port that is open to others
    assert load_settings({**relay, **elsewhere}, {}).relay == "10.0.0.1:9200"
    for wrong, words in (
        ({**relay, "relay_ports": "9200-9219"}, "it has no FLNET_RELAY itself"),
        ({**relay, "node_ip": "10.0.0.2"}, "leave FLNET_NODE_IP away"),
        ({"relay_ports": "4000-4010"}, "choose others"),
        ({"relay": "10.0.0.1"}, "ip:port"),
        ({**relay, "discovery": "lan"}, "LISTEN_ADDRESS"),
    ):
        with pytest.raises(SettingsError, match=words):
            load_settings(wrong, {})


# --- shards


@given(st.integers(1, 10**6), st.integers(0, 10**3))
def test_a_shard_reads_as_it_is_written(index: int, more: int) -> None:
    text = f"{index}/{index + more}"
    assert str(Shard.model_validate(text)) == text


def test_rounds_are_common_if_nobody_says() -> None:
    assert not rules_of(Settings()).asynchronous
    assert rules_of(Settings.model_validate({"rounds": "asynchronous"})).asynchronous


@pytest.mark.parametrize("rule", [{"participation": 0.5}, {"max_staleness": 3}])
def test_rules_of_common_rounds_are_refused_where_there_are_none(rule: dict[str, float]) -> None:
    assert Settings.model_validate(rule).rounds == "common"
    with pytest.raises(ValidationError, match="FLNET_ROUNDS=asynchronous has no rounds for FLNET_PARTICIPATION"):
        Settings.model_validate({"rounds": "asynchronous", **rule})


def test_another_word_is_refused() -> None:
    with pytest.raises(ValidationError, match="rounds"):
        Settings.model_validate({"rounds": "sometimes"})


@pytest.mark.parametrize("other", [{"personal_model": "increment"}, {"aggregation": "cosine,scaffold:0.5"}])
def test_what_goes_on_from_common_averages_needs_common_rounds(other: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="FLNET_ROUNDS=asynchronous has no average that all nodes make"):
        Settings.model_validate({"rounds": "asynchronous", **other})
    assert Settings.model_validate(other).rounds == "common"


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"rounds": "asynchronous"}, "needs common rounds"),
        ({"aggregation": "clip,scaffold"}, "updates of scaffold hold control variates"),
        ({"clip_norm": 2}, "FLNET_CLIP_NORM would shorten the noise too"),
    ],
)
def test_a_promise_of_privacy_is_refused_with_what_breaks_it(other: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Settings.model_validate({"privacy": "node:3:1e-5", **other})
    assert Settings.model_validate({"privacy": "none", **other}).privacy == "none"


@pytest.mark.parametrize("rule", ["secure", "secure:0.2:64,agg2", "agg1,secure", "secure,k-means"])
def test_a_node_is_hidden_in_sums_only_where_all_weigh_the_same(rule: str) -> None:
    with pytest.raises(ValidationError, match="holds numbers of examples, which get no noise: use secure,agg0"):
        Settings.model_validate({"privacy": "node:3:1e-5", "aggregation": rule})
    assert Settings.model_validate({"privacy": "rows:3:1e-5", "aggregation": rule}).aggregation == rule
    for well in ("secure,agg0", "agg0,secure:0.2:64", "agg1"):
        assert Settings.model_validate({"privacy": "node:3:1e-5", "aggregation": well}).aggregation == well


def test_a_secure_sum_is_one_in_whatever_order_it_is_written() -> None:
    with pytest.raises(ValidationError, match="shows only the sum of the updates"):
        Settings.model_validate({"aggregation": "agg0,secure", "leave_one_out": True})


def test_rows_that_are_hidden_stay_so_in_updates_that_are_shortened() -> None:
    assert Settings.model_validate({"privacy": "rows:3:1e-5", "clip_norm": 2}).clip_norm == 2


def test_a_promise_that_is_none_is_refused_by_the_name_that_the_person_gave() -> None:
    with pytest.raises(SettingsError, match=r"FLNET_PRIVACY=node:0:1e-5: expected an epsilon above 0 .* got 0"):
        load_settings({}, {"FLNET_PRIVACY": "node:0:1e-5"})
    with pytest.raises(SettingsError, match="FLNET_PRIVACY_BUDGET"):
        load_settings({}, {"FLNET_PRIVACY_BUDGET": "two words"})


@pytest.mark.parametrize(
    ("aggregation", "named"),
    [
        ("secure,krum:1", "krum:1 looks at single updates"),
        ("secure,median", "median looks at single updates"),
        ("secure,consistency", "consistency looks at single updates"),
        ("clip,secure", "clip looks at single updates"),
        ("secure,agg1,agg0", "expected secure once, with one rule, got secure, agg1, agg0"),
        ("secure,secure:0.25:64", "expected secure once, with one rule, got secure, secure:0.25:64"),
        ("secure,median_of_all", "'median_of_all' is no rule: expected secure"),
        ("secure,", "'' is no rule: expected secure"),
        ("krum:1,secure", "krum:1 looks at single updates"),
        ("secure:0.6", "below 0.5"),
        ("secure:1", "below 0.5"),
        ("secure:0.3:16", "32 or 64"),
        ("secure:x", "got 'secure:x'"),
    ],
)
def test_what_needs_single_updates_is_refused_beside_secure_sums(aggregation: str, named: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(named)):
        load_settings({}, {"FLNET_AGGREGATION": aggregation})


@pytest.mark.parametrize("aggregation", ["secure", "secure,agg0", "secure:0:64,agg2", " secure:0.25 , agg1"])
def test_secure_sums_go_with_means(aggregation: str) -> None:
    assert load_settings({}, {"FLNET_AGGREGATION": aggregation}).aggregation == ",".join(
        part.strip() for part in aggregation.split(",")
    )


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FLNET_ROUNDS", "asynchronous"),
        ("FLNET_MAX_STALENESS", "2"),
        ("FLNET_LEAVE_ONE_OUT", "true"),
        ("FLNET_MAX_UPDATE_NORM", "10"),
        ("FLNET_WIRE", "int8"),
        ("FLNET_WIRE", "float16"),
    ],
)
def test_settings_that_look_at_single_updates_conflict_with_secure_sums(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"shows only the sum of the updates, but {variable}"):
        load_settings({}, {"FLNET_AGGREGATION": "secure", variable: value})
    load_settings({}, {"FLNET_AGGREGATION": "agg1", variable: value})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FLNET_ROUNDS", "asynchronous"),
        ("FLNET_AGGREGATION", "krum:1"),
        ("FLNET_AGGREGATION", "clip,agg1"),
        ("FLNET_AGGREGATION", "fedavgm:1:0.9"),
        ("FLNET_AGGREGATION", "k-means"),
        ("FLNET_MAX_STALENESS", "2"),
        ("FLNET_LEAVE_ONE_OUT", "true"),
    ],
)
def test_what_needs_whole_updates_conflicts_with_segments(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"no node has a whole update of another, but {variable}"):
        load_settings({}, {"FLNET_TOPOLOGY": "segments", variable: value})
    load_settings({}, {"FLNET_TOPOLOGY": "mesh", variable: value})


@pytest.mark.parametrize(
    "rule",
    ["agg0", "agg1", "agg2", "median", "trimmed-mean:0.2", "winsorised-mean:0.2", "secure", "secure,k-means"],
)
def test_rules_that_work_number_by_number_go_with_segments(rule: str) -> None:
    settings = load_settings({}, {"FLNET_TOPOLOGY": "segments:3", "FLNET_AGGREGATION": rule})
    assert (settings.topology, settings.aggregation) == ("segments:3", rule)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FLNET_WIRE", "float16"),
        ("FLNET_WIRE", "int8"),
        ("FLNET_CLIP_NORM", "1.5"),
        ("FLNET_MAX_UPDATE_NORM", "10"),
        ("FLNET_PARTICIPATION", "0.5"),
    ],
)
def test_what_goes_with_segments(variable: str, value: str) -> None:
    settings = load_settings({}, {"FLNET_TOPOLOGY": "segments", variable: value})
    assert str(getattr(settings, variable.removeprefix("FLNET_").lower())).removesuffix(".0") == value


@pytest.mark.parametrize("topology", ["random:2", "ring"])
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FLNET_ROUNDS", "asynchronous"),
        ("FLNET_AGGREGATION", "median"),
        ("FLNET_AGGREGATION", "cosine,agg1"),
        ("FLNET_AGGREGATION", "scaffold"),
        ("FLNET_AGGREGATION", "secure"),
        ("FLNET_PARTICIPATION", "0.5"),
        ("FLNET_MAX_STALENESS", "2"),
        ("FLNET_LEAVE_ONE_OUT", "true"),
        ("FLNET_CLIP_NORM", "1.5"),
    ],
)
def test_what_needs_an_average_of_all_conflicts_with_neighbours(topology: str, variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"each node averages with its neighbours alone, but {variable}"):
        load_settings({}, {"FLNET_TOPOLOGY": topology, variable: value})
    load_settings({}, {"FLNET_TOPOLOGY": "mesh", variable: value})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FLNET_AGGREGATION", "agg0"),
        ("FLNET_AGGREGATION", "agg2"),
        ("FLNET_WIRE", "int8"),
        ("FLNET_MAX_UPDATE_NORM", "10"),
        ("FLNET_PRIVACY", "node:3:1e-5"),
    ],
)
def test_what_each_node_does_with_its_own_update_goes_with_neighbours(variable: str, value: str) -> None:
    settings = load_settings({}, {"FLNET_TOPOLOGY": "random:3", variable: value})
    assert settings.topology == "random:3"


def test_an_unknown_topology_is_refused_with_what_there_is() -> None:
    with pytest.raises(SettingsError, match="FLNET_TOPOLOGY=star: expected mesh, segments or segments:3"):
        load_settings({}, {"FLNET_TOPOLOGY": "star"})

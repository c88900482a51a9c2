from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from flnet.cli.options import chosen, option_name, read_config, settings_options, variable_name
from flnet.errors import SettingsError
from flnet.settings import Settings, load_settings


@click.command()
@settings_options
def probe(**options: Any) -> None:
    click.echo(load_settings(chosen(options), {}).model_dump_json())


def parse(*args: str) -> Settings:
    result = CliRunner().invoke(probe, args, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return Settings.model_validate_json(result.output)


@pytest.mark.parametrize("field", Settings.model_fields)
def test_every_setting_is_an_option_that_names_its_variable(field: str) -> None:
    option = next(param for param in probe.params if param.name == field)
    assert isinstance(option, click.Option)
    assert option.opts == [option_name(field)]
    assert option.help is not None
    assert variable_name(field) in option.help
    assert str(Settings.model_fields[field].description) in option.help


def test_options_reach_their_settings() -> None:
    settings = parse(
        "--node-port", "4001", "--bootstrap-pairs", "127.0.0.1:4000,127.0.0.1:4002", "--data-shard", "2/3",
        "--prune-unresponsive-nodes", "--compute", "thread", "--state-path", "somewhere",
    )  # fmt: skip
    assert settings.node_port == 4001
    assert settings.bootstrap_pairs == ("127.0.0.1:4000", "127.0.0.1:4002")
    assert str(settings.data_shard) == "2/3"
    assert settings.prune_unresponsive_nodes
    assert settings.compute == "thread"
    assert settings.state_path == Path("somewhere")


def test_a_list_option_may_be_repeated() -> None:
    assert parse("--trainers", "A", "--trainers", "B,C").trainers == ("A", "B", "C")


def test_a_switch_can_be_turned_off_against_the_environment() -> None:
    options = chosen({"prune_unresponsive_nodes": False, "node_id": None, "trainers": ()})
    assert options == {"prune_unresponsive_nodes": False}
    assert not load_settings(options, {"FLNET_PRUNE_UNRESPONSIVE_NODES": "true"}).prune_unresponsive_nodes


def test_help_shows_defaults_and_choices() -> None:
    help_text = CliRunner().invoke(probe, ["--help"], terminal_width=200).output
    assert "default 4000" in help_text
    assert "default 1/1" in help_text
    assert "[DEBUG|INFO|WARNING|ERROR]" in help_text


def test_the_file_of_the_working_directory_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_config(None) == {}
    Path("flnet.toml").write_text('node_port = 4005\ntrainers = ["A", "B"]\n')
    assert read_config(None) == {"node_port": 4005, "trainers": ["A", "B"]}
    assert load_settings({}, {}, read_config(None)).trainers == ("A", "B")


def test_a_named_file_beats_the_one_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("flnet.toml").write_text("node_port = 4005")
    Path("other.toml").write_text("node_port = 4006")
    assert read_config(Path("other.toml")) == {"node_port": 4006}


@pytest.mark.parametrize(
    ("content", "words"), [(None, "cannot be read"), (b"node_port = ", "TOML"), (b"\xff\xfe", "TOML")]
)
def test_an_unusable_file_is_named(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "mine.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match=words) as caught:
        read_config(path)
    assert "mine.toml" in caught.value.message

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from flnet.setting_types import (
    Folder,
    Hosts,
    Names,
    Pairs,
    Shard,
    check_host_name,
    check_local_training,
    check_pair,
    check_partition,
    check_personal_model,
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


def test_a_pair_is_a_host_and_a_port() -> None:
    assert TypeAdapter(Pairs).validate_python("localhost:4001,[::1]:2") == ("localhost:4001", "[::1]:2")
    for wrong in ("localhost", ":1", "a:0", "a:70000", "a/b:1"):
        with pytest.raises(ValueError, match=r"host|port|address|name"):
            check_pair(wrong)


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


def test_a_shard_is_written_as_part_and_count() -> None:
    assert str(Shard.model_validate("2/10")) == "2/10"


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/0", "-1/3", "1/3/5", "٣/٩", "a/b"])
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

"""Which settings of rounds go together."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from flnet.node.build import rules_of
from flnet.settings import Settings


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

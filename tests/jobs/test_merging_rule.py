"""Another merging rule for one job, chosen by a person while the node runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flnet.effects import Publish, Save
from flnet.errors import InvalidMessage, JobBusy, ParamsRefused
from flnet.events import HyperParamsEdited, Restored, RoundTriggered
from flnet.jobs import Rules
from flnet.strategies.base import MERGING
from tests.jobs.helpers import Bench, asked, prepared, refuses

MEDIAN = HyperParamsEdited({}, "median", folds=False)


def test_the_rule_holds_from_now_on_and_peers_have_to_state_it() -> None:
    bench = Bench()
    bench.hear(MEDIAN)
    (told,) = bench.all(Publish)
    assert told.kind == "merging_rule_set"
    assert told.text.startswith("updates are merged by median from now on, before by agg1; ")
    assert (bench.job.view()["merging_rule"], bench.state.folds) == ("median", False)
    assert bench.state.hyper == prepared().declaration.defaults  # nothing else has changed
    words = "the nodes do not agree on merging rule: here median; there agg1"
    assert str(refuses(bench, asked("a", agreement={}), ParamsRefused)) == words
    bench.hear(asked("a", agreement={MERGING: "median"}))
    assert bench.job.busy


def test_hyper_parameters_may_be_changed_with_it() -> None:
    bench = Bench()
    bench.hear(replace(MEDIAN, changes={"e": 7}))
    assert [one.kind for one in bench.all(Publish)] == ["merging_rule_set", "params_edited"]
    assert bench.state.hyper is not None
    assert bench.state.hyper.e == 7


def test_a_round_keeps_the_rule_that_it_began_with() -> None:
    bench = Bench()
    bench.hear(RoundTriggered())
    refuses(bench, replace(MEDIAN, changes={"e": 7}), JobBusy)


def test_training_and_merging_that_belong_together_stay_together() -> None:
    refuses(Bench(), HyperParamsEdited({}, "clip,scaffold:1"), InvalidMessage)
    refuses(Bench(rules=Rules(averaging={MERGING: "scaffold:1"})), MEDIAN, InvalidMessage)
    refuses(Bench(merging="k-means:1"), MEDIAN, InvalidMessage)


def test_the_rule_of_the_settings_can_be_chosen_again() -> None:
    bench = Bench(rules=Rules(averaging={MERGING: "median"}))
    bench.hear(HyperParamsEdited({}, "agg1"))
    assert bench.state.rules_said == {}
    bench.hear(MEDIAN)
    assert (bench.state.rules.by_person, bench.state.rules_said) == ("", {MERGING: "median"})


@pytest.mark.parametrize(("settings", "rule"), [({}, "median"), ({MERGING: "krum:1"}, "krum:1")])
def test_a_restart_keeps_it_until_the_setting_is_another_one(settings: dict[str, str], rule: str) -> None:
    bench = Bench()
    bench.hear(MEDIAN)
    again = Bench(prepare=False, rules=Rules(averaging=settings))
    again.hear(Restored(bench.one(Save).snapshot, None, None, None, (), ()))
    again.hear(prepared())
    assert again.job.view()["merging_rule"] == rule
    assert again.state.folds is bool(settings)


@pytest.mark.parametrize("damaged", [["no rule", "agg1", True], [7, 7], "median", ["median"]])
def test_what_is_damaged_is_said(damaged: object) -> None:
    bench = Bench()
    bench.hear(MEDIAN)
    again = Bench(prepare=False)
    again.hear(Restored({**bench.one(Save).snapshot, "merging": damaged}, None, None, None, (), ()))
    assert again.one(Publish).kind == "state_damaged"

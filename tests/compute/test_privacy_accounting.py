"""What releases cost together, against the accountants of two libraries, and how much noise a budget needs."""

from __future__ import annotations

import importlib.util
import math
import re

import pytest

from flnet.compute import privacy_accounting
from flnet.compute.privacy_accounting import epsilon, multiplier_for, plan_of, renyi_divergence
from flnet.errors import SettingsError
from flnet.installing import install
from flnet.protocol.messages import HyperParams
from flnet.protocol.updates import NoisyRelease
from flnet.rounds.privacy_plan import Spent
from flnet.settings import Settings

dp_accounting = pytest.importorskip("dp_accounting")
DELTA = 1e-5
SCHEDULES: dict[str, Spent] = {
    "one node-level release": ((NoisyRelease("node", 4.0), 1),),
    "twenty of them": ((NoisyRelease("node", 6.0), 20),),
    "DP-SGD": ((NoisyRelease("rows", 1.1, 0.01, 300), 4),),
    "of several kinds": (
        (NoisyRelease("node", 9.0), 3),
        (NoisyRelease("rows", 1.2, 0.01, 50), 2),
        (NoisyRelease("rows", 9.0, 1.0, 7), 1),
    ),
}


@pytest.mark.parametrize("spent", SCHEDULES.values(), ids=SCHEDULES)
def test_the_cost_is_that_of_the_library(spent: Spent) -> None:
    accountant = dp_accounting.rdp.RdpAccountant()
    for release, count in spent:
        event = dp_accounting.GaussianDpEvent(release.noise_multiplier)
        sampled = dp_accounting.PoissonSampledDpEvent(release.sampling_rate, event)
        accountant.compose(event if release.sampling_rate == 1 else sampled, count * release.steps)
    assert epsilon(spent, DELTA) == pytest.approx(accountant.get_epsilon(DELTA), abs=1e-6)


def by_opacus(spent: Spent) -> float:
    """The cost by the accountant of Opacus, at the orders of the other library."""
    rdp = pytest.importorskip("opacus.accountants.analysis.rdp")
    orders = [float(order) for order in dp_accounting.rdp.rdp_privacy_accountant.DEFAULT_RDP_ORDERS]
    curve = sum(
        rdp.compute_rdp(
            q=release.sampling_rate,
            noise_multiplier=release.noise_multiplier,
            steps=release.steps * count,
            orders=orders,
        )
        for release, count in spent
    )
    return float(rdp.get_privacy_spent(orders=orders, rdp=curve, delta=DELTA)[0])


@pytest.mark.parametrize("spent", SCHEDULES.values(), ids=SCHEDULES)
def test_the_cost_is_that_of_opacus_at_the_same_orders(spent: Spent) -> None:
    assert epsilon(spent, DELTA) == pytest.approx(by_opacus(spent), abs=1e-6)


def test_where_an_order_between_whole_ones_decides_the_cost_is_the_larger_of_the_two() -> None:
    spent: Spent = (
        (NoisyRelease("node", 5.0), 3),
        (NoisyRelease("rows", 0.9, 0.02, 50), 2),
        (NoisyRelease("rows", 1.3, 1.0, 7), 1),
    )
    assert by_opacus(spent) < epsilon(spent, DELTA) < by_opacus(spent) + 1e-4


def test_nothing_costs_nothing_and_no_noise_costs_all() -> None:
    assert epsilon((), DELTA) == 0.0
    assert epsilon(((NoisyRelease("node", 0.0), 1),), DELTA) == float("inf")


def test_what_one_release_costs_is_worked_out_once_however_often_it_is_made() -> None:
    release, before = NoisyRelease("rows", 1.234, 0.01, 60), renyi_divergence.cache_info().misses
    costs = [epsilon(((release, count),), DELTA) for count in range(1, 20)]
    assert costs == sorted(costs)
    assert renyi_divergence.cache_info().misses == before + 1


def test_privacy_loss_distributions_give_less_and_are_another_accountant() -> None:
    spent = SCHEDULES["twenty of them"]
    assert 0.5 < epsilon(spent, DELTA, "pld") / epsilon(spent, DELTA) < 1


def test_less_noise_than_by_the_classical_bound_is_enough() -> None:
    classical = math.sqrt(2 * math.log(1.25 / DELTA))  # Dwork and Roth (2014), theorem A.1, for epsilon 1
    assert 3.7 < multiplier_for(1, DELTA, 1) < classical == pytest.approx(4.8448052614)


@pytest.mark.parametrize(("rate", "steps"), [(1.0, 1), (0.02, 100)])
def test_the_noise_of_a_budget_lasts_for_its_rounds_and_not_for_one_more(rate: float, steps: int) -> None:
    release = NoisyRelease("rows", multiplier_for(3, DELTA, 20, rate, steps), rate, steps)
    assert 2.999 < epsilon(((release, 20),), DELTA) <= 3.0
    assert epsilon(((release, 21),), DELTA) > 3.0


def test_the_plan_is_that_of_the_settings() -> None:
    hyper = HyperParams(e=2, u=0.1, b=50)
    assert plan_of(Settings()) is None
    node = plan_of(Settings(privacy="node:3:1e-5:0.5", privacy_rounds=10, privacy_budget="second"))
    assert node is not None and (node.privacy.clip, node.budget) == (0.5, "second")
    assert node.release(hyper, 0).noise_multiplier == pytest.approx(multiplier_for(3, DELTA, 10))
    rows = plan_of(Settings(privacy="rows:3:1e-5"))
    assert rows is not None
    made = rows.release(hyper, 1000)
    assert (made.level, made.sampling_rate, made.steps) == ("rows", 0.05, 40)
    assert made.noise_multiplier == pytest.approx(multiplier_for(3, DELTA, 20, 0.05, 40))
    with pytest.raises(ValueError, match="at least one row"):
        rows.release(hyper, 0)


def test_without_the_library_a_promise_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="needs dp-accounting.*" + re.escape(install("privacy"))):
        privacy_accounting.plan_of(Settings(privacy="node:1:1e-5"))
    assert privacy_accounting.plan_of(Settings()) is None

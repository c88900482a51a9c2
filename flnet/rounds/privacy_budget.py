"""The privacy budget of a trainer: what its updates have spent, saved with the job before an update leaves.

An update is counted when it becomes the own update of a round. That is the step whose Save precedes its Send, so a
node that dies in between has counted an update that nobody got, and never the other way round. To send the same
update again costs nothing. An update without enough noise for the promise is counted too: it ends the budget.

Budgets have names. A person begins another one by naming it in FLNET_PRIVACY_BUDGET; what was spent under the other
names is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flnet.algorithms.differential_privacy import Privacy
from flnet.params.params import Digest
from flnet.protocol.effects import Publish
from flnet.protocol.updates import NoisyRelease
from flnet.rounds.privacy_plan import DEFAULT_BUDGET, PrivacyPlan, Spent
from flnet.rounds.settings import JobSettings, Tell
from flnet.text import text

SLACK = 1e-9  # relative; sums of the same terms in another order are no overspending
COVERS = {
    "node": text(
        "Hides all rows of this node together from whoever reads its updates. Not hidden: accuracies on test rows, numbers "
        "of examples, predictions, and when and how long it trains."
    ),
    "rows": text(
        "Hides each single row of this node from whoever reads its updates. Not hidden: what many rows have in common, "
        "accuracies on test rows, numbers of examples, predictions, and when and how long it trains."
    ),
}
IN_SUMS = text(
    "Hides all rows of this node together from whoever reads the sums of updates, while enough nodes add their share of "
    "the noise; the record of a round says how many. Not hidden: accuracies on test rows, predictions, and when and "
    "how long it trains."
)
_LEVELS = {"node": text("for the whole node"), "rows": text("for each row")}
MOST_LEFT = 1_000_000  # rounds; more are not counted


@dataclass
class _Account:
    """What was spent under one name.

    Attributes:
        unprotected: updates that left without noise, or may have left before what was kept of them was lost.
    """

    releases: Counter[NoisyRelease] = field(default_factory=Counter)
    unprotected: int = 0

    def spent(self, level: str) -> Spent | None:
        """What counts for a promise of this level; None if that is broken.

        Noise for rows hides no node. Noise for a node hides a row half as well: with or without the row, the clipped
        changes of a node may point in opposite directions, so they differ by twice the clip.
        """
        if self.unprotected or (level == "node" and any(release.level == "rows" for release in self.releases)):
            return None
        counted: Counter[NoisyRelease] = Counter()
        for release, count in self.releases.items():
            halved = replace(release, noise_multiplier=release.noise_multiplier / 2)
            counted[release if release.level == level else halved] += count
        return tuple(sorted(counted.items()))


Accounts = tuple[dict[str, _Account], Digest | None]  # by name of the budget, and the update counted last


class PrivacyBudget:
    """Counts what the updates of a job reveal, and says when the next one would be too much."""

    def __init__(self, settings: JobSettings, tell: Tell) -> None:
        self._settings, self._tell = settings, tell
        self._accounts: dict[str, _Account] = {}
        self._counted: Digest | None = None

    @property
    def plan(self) -> PrivacyPlan | None:
        """What the settings promise; None where they promise nothing."""
        return self._settings.rules.privacy

    # --- what is counted

    def charge(self, update: Digest | None, release: NoisyRelease | None) -> str:
        """Count an update before it is sent; one that was counted already costs nothing.

        Args:
            update: of its parameters; None if each time other noise is added to it, as in a secure sum.
            release: the noise in them; None if there is none.

        Returns:
            Why it must not be sent; empty if it was counted, and may be.
        """
        if update is not None and update == self._counted:
            return ""
        if self.plan is None:
            for name in {DEFAULT_BUDGET, *self._accounts}:  # a budget that is used again must know
                self._account(name).unprotected += 1
        elif release is None:
            return text("no noise was added to its update, which FLNET_PRIVACY asks for")
        elif why := self._too_much(self.plan, release):
            return why
        else:
            self._account(self.plan.budget).releases[release] += 1
        self._counted = update
        return ""

    @property
    def exhausted(self) -> str:
        """Why this node must not train in the next round; empty if it may."""
        plan = self.plan
        return "" if plan is None else self._too_much(plan, self._next(plan))

    def state_lost(self) -> None:
        """What was kept cannot be read: updates may have left that nobody knows of."""
        for name in {DEFAULT_BUDGET, *([self.plan.budget] if self.plan else [])}:
            self._account(name).unprotected += 1

    def begin(self) -> list[Publish]:
        """The trainer is loaded: people read of a budget that is new while there are others."""
        plan = self.plan
        if plan is None or plan.budget in self._accounts:
            return []
        others = len(self._accounts)
        self._account(plan.budget)
        if not others:
            return []
        words = text(
            "a new privacy budget of {trainer} begins: {name}; what was spent under other names is kept",
            self._settings.trainer,
            plan.budget,
        )
        return [self._tell("privacy_budget_begun", words, budget=plan.budget)]

    def _account(self, name: str) -> _Account:
        return self._accounts.setdefault(name, _Account())

    def _spent(self, plan: PrivacyPlan) -> Spent | None:
        return self._accounts.get(plan.budget, _Account()).spent(plan.privacy.level)

    def _next(self, plan: PrivacyPlan) -> NoisyRelease | None:
        """The noise of the next training; None where it is not known before."""
        settings = self._settings
        hyper, declared, limits = settings.round_hyper, settings.declaration, settings.rules.limits
        if hyper is None or declared is None:
            return None
        if plan.privacy.level == "rows" and declared.training_rows < 1:
            return None
        own = dict(limits.own) if limits else {}
        return plan.release(hyper.model_copy(update=own), declared.training_rows)

    def _too_much(self, plan: PrivacyPlan, release: NoisyRelease | None) -> str:
        spent, most = self._spent(plan), plan.privacy.epsilon
        if spent is None:
            return text(
                "updates left this node without the noise that FLNET_PRIVACY asks for, so the budget {name} cannot be "
                "kept; another name in FLNET_PRIVACY_BUDGET begins a new one",
                plan.budget,
            )
        would = plan.cost(spent if release is None else _with(spent, release, 1))
        if would <= most * (1 + SLACK):
            return ""
        return text(
            "its privacy budget is spent: epsilon {spent} of {epsilon}, and {next} with one more update",
            f"{plan.cost(spent):.4g}",
            f"{most:g}",
            f"{would:.4g}",
        )

    # --- what is shown

    def view(self) -> Mapping[str, Any] | None:
        """The promise and what was spent of it, as JSON-ready data; None where the settings promise nothing."""
        plan = self.plan
        if plan is None:
            return None
        spent, release, privacy = self._spent(plan), self._next(plan), plan.privacy
        account = self._accounts.get(plan.budget, _Account())
        cost = None if spent is None else plan.cost(spent)
        left = 0 if spent is None else _rounds_left(plan, spent, release)
        return {
            "level": privacy.level,
            "epsilon": privacy.epsilon,
            "delta": privacy.delta,
            "clip": privacy.clip,
            "budget": plan.budget,
            "spent": cost,
            "updates": account.releases.total(),
            "noise_multiplier": release.noise_multiplier if release else None,
            "rounds_left": left,
            "words": _words(privacy, cost, left),
            "covers": IN_SUMS if self._settings.secure and plan.in_sums else COVERS[privacy.level],
        }

    def record(self, release: NoisyRelease | None) -> Mapping[str, Any] | None:
        """What the record of a round says of the own update, after it was counted.

        Args:
            release: the noise in it.
        """
        view = self.view()
        if view is None or release is None:
            return None
        names = ("level", "epsilon", "delta", "clip", "budget", "spent")
        multiplier, clip = release.noise_multiplier, f"{view['clip']:g}"
        words = text(
            "{words}; noise {multiplier} times the clip of {clip}", view["words"], f"{multiplier:.4g}", clip
        )
        return {**{name: view[name] for name in names}, "noise_multiplier": multiplier, "words": words}

    # --- restarts

    def kept(self) -> Mapping[str, Any]:
        """The state that is saved for a restart, as plain JSON data."""
        accounts = {
            name: {
                "releases": [
                    [release.level, release.noise_multiplier, release.sampling_rate, release.steps, count]
                    for release, count in sorted(account.releases.items())
                ],
                "bare": account.unprotected,
            }
            for name, account in sorted(self._accounts.items())
        }
        return {"accounts": accounts, "counted": self._counted}

    def restore(self, accounts: Accounts) -> None:
        """Take up what an earlier run saved; see `read_accounts`."""
        self._accounts, self._counted = accounts


def read_accounts(kept: Mapping[str, Any] | None) -> Accounts:
    """Read the result of `PrivacyBudget.kept` after a restart; nothing of None.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it is damaged.
    """
    if kept is None:
        return {}, None
    accounts = {}
    for name, account in kept["accounts"].items():
        releases: Counter[NoisyRelease] = Counter()
        for level, multiplier, rate, steps, count in account["releases"]:
            if level not in ("node", "rows"):
                raise ValueError(text("expected a release of level node or rows, got {level}", f"{level!r:.50}"))
            releases[NoisyRelease(level, float(multiplier), float(rate), int(steps))] += int(count)
        accounts[str(name)] = _Account(releases, int(account["bare"]))
    counted = kept["counted"]
    return accounts, None if counted is None else Digest(str(counted))


def _words(privacy: Privacy, cost: float | None, left: int | None) -> str:
    """The promise and what was spent of it, in a sentence."""
    level, delta = _LEVELS[privacy.level], f"{privacy.delta:g}"
    if cost is None:
        return text(
            "epsilon {epsilon}, delta {delta}, {level}: broken, because updates left without the noise for it",
            f"{privacy.epsilon:g}",
            delta,
            level,
        )
    figures = (f"{cost:.3g}", f"{privacy.epsilon:g}", delta, level)
    if left is None:
        return text("epsilon {spent} of {epsilon} spent, delta {delta}, {level}", *figures)
    return text(
        "epsilon {spent} of {epsilon} spent, delta {delta}, {level}; rounds left: {rounds}", *figures, left
    )


def _with(spent: Spent, release: NoisyRelease, count: int) -> Spent:
    counted = Counter(dict(spent))
    counted[release] += count
    return tuple(sorted(counted.items()))


def _rounds_left(plan: PrivacyPlan, spent: Spent, release: NoisyRelease | None) -> int | None:
    """How many more updates with this noise the budget allows; None where the noise is not known."""
    if release is None:
        return None

    def fits(count: int) -> bool:
        return plan.cost(_with(spent, release, count)) <= plan.privacy.epsilon * (1 + SLACK)

    fitting, beyond = 0, 1
    while beyond < MOST_LEFT and fits(beyond):
        fitting, beyond = beyond, 2 * beyond
    while beyond - fitting > 1:
        middle = (fitting + beyond) // 2
        fitting, beyond = (middle, beyond) if fits(middle) else (fitting, middle)
    return fitting

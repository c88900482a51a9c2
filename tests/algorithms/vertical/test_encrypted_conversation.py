"""Epochs of encrypted regression as three conversations play them, and messages that no correct node sends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from flnet.algorithms.vertical.aligned_batches import AlignedBatches
from flnet.algorithms.vertical.aligning import Sent
from flnet.algorithms.vertical.conversation import HolderTurn, Saved
from flnet.algorithms.vertical.encrypted_conversation import NOISE_EPOCHS, RIDGE, EncryptedConversation, plan_of
from flnet.algorithms.vertical.encryption import PLAIN
from flnet.algorithms.vertical.groups import SafePrimeGroup
from flnet.algorithms.vertical.taylor_regression import fixed_batches, signed_labels, train
from flnet.errors import InvalidMessage, PeerError, TrainerError
from flnet.params.params import Params, PeerId
from flnet.protocol.messages import HyperParams
from flnet.protocol.vertical import (
    BeginPart,
    BottomClosedPart,
    CombinedPart,
    CommonRowsPart,
    EncryptionKeysPart,
    EpochClosedPart,
    HashedIdsPart,
    HoldoutLossPart,
    MaskPart,
    OrderPart,
    OutputsPart,
    OwnWeightsPart,
    PairKeyPart,
    PositionPart,
    ResidualPart,
)
from flnet.rounds.vertical_round import UNTOLD
from tests.algorithms.vertical.encrypted_holders import RegressionPeople

DIGEST, OTHER = "ab" * 32, "cd" * 32
HYPER = HyperParams(e=1, u=0.1, b=24)
SECRETS = {"a": bytes(32), "b": bytes([1] * 32), "c": bytes([2] * 32)}


def begin(people: RegressionPeople, closed: int = -1, *, aligns: bool = True) -> BeginPart:
    holders = {}
    for name, host in people.hosts().items():
        declared = host.declared(5).offers["vertical"]
        stated = {key: value for key, value in declared.items() if key not in UNTOLD}
        holders[name] = PositionPart(**stated, number=0)
    return BeginPart(holders=holders, closed=closed, aligns=aligns, seed=5)


class Epoch:
    """One epoch of three conversations, message by message; `spoil` may change or replace what a node sends."""

    def __init__(
        self, people: RegressionPeople, plan: BeginPart, before: Mapping[str, Any] = {}, secret: int = 0
    ) -> None:
        self.turns: dict[str, list[HolderTurn]] = {name: [] for name in "abc"}
        self.sent: list[tuple[str, Sent]] = []
        self.waiting: deque[tuple[str, Sent]] = deque()
        self.talks = {
            name: EncryptedConversation(
                PeerId(name),
                "s",
                plan,
                HYPER,
                people.tables[name],
                [f"{one}" for one in people.tables[name].identifiers()],
                before.get(name, {}).get("saved", Saved()),
                group=SafePrimeGroup(),
                secret=bytes([*SECRETS[name][:31], secret]),
                encryption=PLAIN,
                rows=before.get(name, {}).get("rows"),
                alignment=before.get(name, {}).get("alignment", ""),
            )
            for name in "abc"
        }

    def play(self, spoil: Callable[[str, Sent], Sent] = lambda sender, sent: sent) -> None:
        for name, talk in self.talks.items():
            self._take(name, talk.start())
        while self.waiting or any(turns[-1].more for turns in self.turns.values()):
            for name, turns in self.turns.items():
                if turns[-1].more:
                    self._take(name, self.talks[name].receive([]))
            if self.waiting:
                sender, sent = self.waiting.popleft()
                sent = spoil(sender, sent)
                self.sent.append((sender, sent))
                self._take(
                    str(sent.to), self.talks[str(sent.to)].receive([(PeerId(sender), sent.part, sent.arrays)])
                )

    def _take(self, name: str, turn: HolderTurn) -> None:
        self.turns[name].append(turn)
        self.waiting += [(name, one) for one in turn.sent]

    def kept(self) -> dict[str, dict[str, Any]]:
        """What the next epoch goes on from."""
        kept = {}
        for name, turns in self.turns.items():
            saved = next(turn.saved for turn in turns if turn.saved is not None)
            rows = [turn for turn in turns if turn.rows is not None]
            known = {"rows": rows[0].rows, "alignment": rows[0].alignment} if rows else {}
            kept[name] = {"saved": saved, **known}
        return kept


@pytest.fixture
def people() -> RegressionPeople:
    return RegressionPeople.random()


def test_all_three_close_the_epoch_with_one_report(people: RegressionPeople) -> None:
    epoch = Epoch(people, begin(people))
    epoch.play()
    reports = {name: turns[-1].report for name, turns in epoch.turns.items()}
    assert reports["a"] == reports["b"] == reports["c"] is not None
    assert {turns[-1].stage for turns in epoch.turns.values()} == {"closed"}
    assert [turn.common for turn in epoch.turns["c"] if turn.common is not None] == [90]
    assert [turn.rows for turn in epoch.turns["c"] if turn.rows is not None] == []
    assert {str(turn.bottom) for turn in epoch.turns["c"]} == {"None"}
    kinds = {type(sent.part).__name__ for sender, sent in epoch.sent if "c" in (sender, sent.to)}
    assert kinds == {
        *("CommonRowsPart", "EncryptionKeysPart", "MaskPart", "OwnWeightsPart", "EncryptedGradientsPart"),
        *("HoldoutLossPart", "BottomClosedPart", "EpochClosedPart"),
    }


def test_a_second_epoch_goes_on_from_the_first_without_an_alignment(people: RegressionPeople) -> None:
    first = Epoch(people, begin(people))
    first.play()
    second = Epoch(people, begin(people, 0, aligns=False), first.kept())
    second.play()
    reports = [epoch.turns["a"][-1].report for epoch in (first, second)]
    assert [report.epoch for report in reports if report] == [0, 1]
    assert reports[1].loss < reports[0].loss  # type: ignore[union-attr]
    assert not any(type(sent.part).__name__ == "ChunkPart" for _, sent in second.sent)
    other = first.kept()
    theta = other["b"]["saved"].params["bottom/weights/theta"]
    other["b"]["saved"] = Saved(Params({"bottom/weights/theta": theta + 1}))
    with pytest.raises(PeerError, match="b goes on from other weights than those of epoch 0"):
        Epoch(people, begin(people, 0, aligns=False), other).play()


def replaced(
    kind: type, to: str, part: Any, arrays: Mapping[str, Any] | None = None
) -> Callable[[str, Sent], Sent]:
    """Put another part in the place of the first of this kind to a node."""
    pending = [kind]

    def spoil(sender: str, sent: Sent) -> Sent:
        if not (pending and isinstance(sent.part, pending[0]) and sent.to == to):
            return sent
        pending.clear()
        return Sent(sent.to, part, sent.arrays if arrays is None else Params(arrays))

    return spoil


COMMON = CommonRowsPart(epoch=0, count=90, alignment=DIGEST)
CLOSED = EpochClosedPart(epoch=0, loss=0.5, bottoms={"a": DIGEST, "b": DIGEST}, top=DIGEST)
BYTES = np.arange(9, dtype=np.uint8)
KEYS = EncryptionKeysPart(epoch=0, masks=1)
SEALED = dict.fromkeys(("public", "holdout"), BYTES)
OUTPUTS = OutputsPart(epoch=0, step=0, batch=DIGEST)


def weights(*values: float, batch: int = 0) -> OwnWeightsPart:
    return OwnWeightsPart(epoch=0, batch=batch, weights=values)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (replaced(CommonRowsPart, "c", COMMON), "do not have the same common rows"),
        (replaced(CommonRowsPart, "c", OUTPUTS, {"values": np.ones((2, 2))}), "outputs has no place"),
        (replaced(EncryptionKeysPart, "a", EncryptionKeysPart(epoch=3, masks=1)), "a message of epoch 0, got 3"),
        (replaced(EncryptionKeysPart, "a", KEYS, {"mask": BYTES}), "expected the arrays holdout, public"),
        (replaced(EncryptionKeysPart, "a", KEYS, SEALED), "no public key of this scheme"),
        (replaced(EncryptionKeysPart, "b", KEYS, {**SEALED, "holdout": BYTES / 2}), "expected a list of bytes"),
        (replaced(OwnWeightsPart, "a", weights(0.0)), "weights for 1 columns came; expected 3"),
        (replaced(OwnWeightsPart, "a", weights(0.0, 0, 0, batch=9)), "OwnWeights is not what A waits for"),
        (replaced(OwnWeightsPart, "a", weights(1e6, 0, 0)), "a score reached 1e.06 from the columns of A"),
        (replaced(ResidualPart, "b", ResidualPart(epoch=0, batch=0), {"residual": BYTES}), "has 9 bytes"),
        (replaced(ResidualPart, "b", weights(0.0, 0, 0), {}), "OwnWeights came from A"),
        (replaced(ResidualPart, "b", CLOSED, {}), "epochclosed has no place"),
        (replaced(CombinedPart, "a", CombinedPart(epoch=0, batch=2)), "Combined is not what A waits for"),
        (replaced(HoldoutLossPart, "c", HoldoutLossPart(epoch=0), {"total": BYTES}), "has 9 bytes"),
        (replaced(BottomClosedPart, "c", BottomClosedPart(epoch=0, digest=OTHER)), "has kept other weights"),
        (replaced(EpochClosedPart, "b", CLOSED), "b has not ended this epoch with these weights"),
    ],
)
def test_what_no_correct_node_sends_is_refused_in_words(
    people: RegressionPeople, spoil: Callable[[str, Sent], Sent], words: str
) -> None:
    with pytest.raises((PeerError, TrainerError), match=words):
        Epoch(people, begin(people)).play(spoil)


def test_a_part_before_the_rows_are_aligned_is_refused(people: RegressionPeople) -> None:
    epoch = Epoch(people, begin(people))
    with pytest.raises(PeerError, match="a has no aligned rows yet"):
        epoch.talks["a"].receive(
            [(PeerId("c"), OwnWeightsPart(epoch=0, batch=0, weights=(0.0, 0.0, 0.0)), Params())]
        )


@pytest.mark.parametrize("numbers", [(), (0.0,) * 4098, (float("nan"),), (float("inf"),), ("x",)])
def test_weights_that_are_none_are_refused_on_the_wire(numbers: Any) -> None:
    with pytest.raises(ValidationError):
        OwnWeightsPart.model_validate({"epoch": 0, "batch": 0, "weights": numbers})


@pytest.mark.parametrize(
    ("closed", "hyper", "count", "words"),
    [
        (-1, HYPER, 9, "9 ids in common; at least 10"),
        (NOISE_EPOCHS - 1, HYPER, 90, "made for 100 epochs"),
        (-1, HyperParams(e=1, u=0.1, b=1), 10**9, "too small for 1000000000 common rows"),
        (-1, HyperParams(e=1, u=0.1, b=10**6), 10**7, "too large to be sent"),
        (-1, HyperParams(e=1, u=0.1, b=3), 18, "largest batch has 3 rows; at least 4"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused_before_memory_is_taken(
    people: RegressionPeople, closed: int, hyper: HyperParams, count: int, words: str
) -> None:
    with pytest.raises(InvalidMessage, match=words):
        plan_of(begin(people, closed), hyper, count)


def test_a_node_with_two_positions_is_refused(people: RegressionPeople) -> None:
    plan = begin(people)
    two = BeginPart(holders={name: plan.holders[name] for name in "ab"}, closed=-1, aligns=True, seed=1)
    with pytest.raises(InvalidMessage, match="takes three nodes; there are 2"):
        plan_of(two, HYPER, 90)
    doubled = {**plan.holders, "d": plan.holders["c"]}
    with pytest.raises(InvalidMessage, match="c and d have one position"):
        plan_of(BeginPart(holders=doubled, closed=-1, aligns=True, seed=1), HYPER, 90)


def expected_weights(people: RegressionPeople, epochs: int, kept: Mapping[str, Any]) -> Any:
    """The same steps in one place, over the positions that the nodes were told and the mask of the key holder."""
    rows, digest = {name: kept[name]["rows"] for name in "abc"}, kept["a"]["alignment"]
    batches = AlignedBatches(len(rows["c"]), HYPER.b, 5, digest)
    at = {name: own[batches.trained] for name, own in rows.items()}
    tables = {name: people.table(name) for name in "ab"}
    x = [np.where(at[n][:, None] < 0, 0, np.asarray(tables[n].x)[at[n]]) for n in "ab"]
    y = np.where(at["a"] < 0, -1, signed_labels(np.asarray(tables["a"].y))[at["a"]])
    whole, mask = np.column_stack([np.ones(len(y)), *x]), at["c"].astype(float)
    sizes = fixed_batches(len(y), HYPER.b)
    return train(whole, y, sizes, np.zeros(whole.shape[1]), epochs, HYPER.u, RIDGE, mask, fewest=4)


def test_where_matches_are_hidden_only_the_key_holder_knows_them_and_the_weights_are_those_of_one_place() -> None:
    people = RegressionPeople.hiding()
    first = Epoch(people, begin(people))
    first.play()
    kept = first.kept()
    second = Epoch(people, begin(people, 0, aligns=False), kept)
    second.play()
    a, b, mask = (kept[name]["rows"] for name in "abc")
    assert (len(a), len(b), len(mask)) == (120, 120, 120)
    assert sorted(a) == list(range(120))
    assert sorted(b[b >= 0]) == list(range(105))
    ids = {"a": people.table("a").ids, "b": people.table("b").ids}
    matches = [
        bool(one >= 0 <= other and ids["a"][one] == ids["b"][other]) for one, other in zip(a, b, strict=True)
    ]
    assert matches == mask.astype(bool).tolist()
    assert sum(matches) == 90
    assert len({kept[name]["alignment"] for name in "abc"}) == 1
    kinds = {(sender, str(sent.to), type(sent.part).__name__) for sender, sent in first.sent}
    assert not any("Chunk" in kind or "Opening" in kind for _, _, kind in kinds)
    assert {(sender, to) for sender, to, kind in kinds if kind == "PairKeyPart"} == {("a", "b"), ("b", "a")}
    theta = [second.kept()[name]["saved"].params for name in "abc"]
    weights = np.concatenate([theta[0]["bottom/weights/theta"], theta[1]["bottom/weights/theta"]])
    assert theta[2]["top/weights/theta"].tolist() == weights.tolist()
    assert weights == pytest.approx(expected_weights(people, 2, kept), abs=1e-12)
    assert not any(type(sent.part).__name__ in ("HashedIdsPart", "OrderPart") for _, sent in second.sent)


def test_orders_and_hashes_are_other_ones_in_each_alignment() -> None:
    """What A gets tells nothing of matches: it is a random order of its own rows."""
    people, orders, hashes = RegressionPeople.hiding(), [], set()
    for number in range(3):
        epoch = Epoch(people, begin(people), secret=number)
        epoch.play()
        orders.append(epoch.kept()["a"]["rows"].tolist())
        sent = next(sent for sender, sent in epoch.sent if sender == "a" and isinstance(sent.part, HashedIdsPart))
        hashes |= {bytes(one) for one in np.asarray(sent.arrays["items"]).reshape(-1, 32)}
    assert len({tuple(order) for order in orders}) == 3
    assert len(hashes) == 3 * 120


ORDER = OrderPart(epoch=0, alignment=DIGEST)
HASHES = HashedIdsPart(epoch=0, number=0, total=105)  # of b, whose hashes come first


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (replaced(HashedIdsPart, "c", HASHES.model_copy(update={"number": 1})), "the next 105 of 105 hashed ids"),
        (
            replaced(HashedIdsPart, "c", HASHES, {"items": np.zeros(64, np.uint8)}),
            "the next 105 of 105 hashed ids",
        ),
        (replaced(HashedIdsPart, "c", HASHES, {"items": np.zeros(3360, np.uint8)}), "an id is there twice"),
        (replaced(HashedIdsPart, "c", ORDER, {"order": np.arange(120)}), "order is not what this node waits for"),
        (
            replaced(OrderPart, "a", ORDER, {"order": np.zeros(120, int)}),
            "does not name each of the 120 rows once",
        ),
        (replaced(OrderPart, "a", ORDER, {"order": np.arange(119)}), "the order of 120 positions, got int64"),
        (
            replaced(OrderPart, "a", ORDER, {"order": np.arange(120) / 1}),
            "the order of 120 positions, got float64",
        ),
        (replaced(OrderPart, "a", ORDER), "the same common rows|positions that they were told"),
        (replaced(PairKeyPart, "b", PairKeyPart(), {"items": np.zeros(32, np.uint8)}), "element"),
        (replaced(MaskPart, "a", MaskPart(epoch=0, batch=2)), "mask is not what this node waits for"),
    ],
)
def test_an_alignment_by_the_key_holder_refuses_what_no_correct_node_sends(
    spoil: Callable[[str, Sent], Sent], words: str
) -> None:
    people = RegressionPeople.hiding()
    with pytest.raises((PeerError, TrainerError), match=words):
        Epoch(people, begin(people)).play(spoil)

"""The model that a job holds, what became of it here, and which of two models a round starts from.

What a peer says of its model gives it no precedence. Before the first average a node starts from the initiator's model,
because all need one start. Later it keeps its own model, unless the initiator's measures no worse on its own rows, or a
person went back to one that this node has held itself. Nodes that train from different models agree again when they
have averaged the same updates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from flnet.aggregation.base import SharedMemory
from flnet.errors import JobBusy, ParamsRefused
from flnet.params.params import Array, Digest, Params, ParamSpec, PeerId, Schema, TrainerId
from flnet.protocol.effects import Evaluate
from flnet.protocol.events import (
    DataChanged,
    Declaration,
    Prepared,
    Restored,
    RolledBack,
    Trained,
)
from flnet.protocol.messages import HyperParams
from flnet.protocol.updates import Claim, Contribution, RoundKey, Update
from flnet.text import text

MASKED = "masked"  # name of the array of a masked update
NOTHING = Params().digest  # what a node states that shares the memory of its aggregation rule, and has none yet


@dataclass(frozen=True)
class Start:
    """The initiator's model.

    Attributes:
        peer: who holds it, if `params` are to be fetched.
        round: the round whose average it is; -1 if it never was averaged.
        contributors: number of updates in that average.
        restored_at: the round that the initiator had reached when a person there went back to it; None if nobody
            did.
        is_due: whether this node starts from it in any case, without comparing it with its own model.
    """

    digest: Digest
    params: Params | None
    peer: PeerId
    round: int = -1
    contributors: int = 0
    restored_at: int | None = None
    is_due: bool = False


@dataclass(frozen=True)
class Model:
    """Shared and private parameters, and where the shared part comes from.

    Attributes:
        round: the round whose average the shared part is; -1 if it never was averaged.
        contributors: how many updates went into that average; 0 where it counts for none.
        restored_at: set when a person went back to this model, here or where a round was started from it: the
            round that was reached there then.
        is_personal: whether the private parameters learnt on from just this shared part.
    """

    schema: Schema
    shared: Params
    private: Params
    round: int = -1
    contributors: int = 0
    restored_at: int | None = None
    is_personal: bool = False

    @classmethod
    def initial(cls, event: Prepared | DataChanged) -> Model:
        """The model that a trainer begins with."""
        declared = event.declaration
        shared = event.params.select(declared.shared)
        private = event.params.select(event.params.keys() - set(declared.shared))
        return cls(Schema.of(shared, declared.merge, declared.agreement, declared.buffers), shared, private)

    @property
    def is_initial(self) -> bool:
        """Whether it was never averaged, here or elsewhere."""
        return self.round < 0 and self.restored_at is None

    @property
    def full(self) -> Params:
        """All parameters, as the trainer takes them."""
        return self.shared.merged_with(self.private)

    def holding(self, shared: Params, round: int, contributors: int, restored_at: int | None = None) -> Model:
        """The same job with another shared part."""
        other = replace(self, shared=shared, round=round, contributors=contributors, restored_at=restored_at)
        return replace(other, is_personal=False)

    def with_private(self, private: Params, is_personal: bool = False) -> Model:
        """The same job with other private parameters."""
        return replace(self, private=private, is_personal=is_personal)


class HeldModel:
    """The current model of a job, its accuracy, this node's update, and the memory of the aggregation rule.

    Attributes:
        model: None until the trainer is loaded.
        accuracy: of the model held, after averaging, on the own test split.
        remembered: by the aggregation rule, between rounds.
        stated_memory: what it remembered when the newest own update stated that; peers may fetch it.
        own: the newest own update, for peers that fetch it.
        rolled_back: a person went back to the model held, and no average came since.
    """

    def __init__(self) -> None:
        self.model: Model | None = None
        self.accuracy: float | None = None
        self.remembered: Params | None = None
        self.stated_memory: Params | None = None
        self.own: Update | None = None
        self.rolled_back = False

    @property
    def current(self) -> Model:
        """The model, where there is one."""
        assert self.model is not None
        return self.model

    @property
    def schema(self) -> Schema:
        """The schema of every update."""
        return self.current.schema

    def masked_form(self, bits: int) -> Schema:
        """The form of a masked update: one vector with the weight and all numbers of the model."""
        return Schema({MASKED: ParamSpec((1 + self.schema.numbers,), f"uint{bits}", "max")})

    @property
    def digest(self) -> Digest | None:
        """The digest of the current model."""
        return self.model.shared.digest if self.model else None

    @property
    def sent(self) -> Params | None:
        """The parameters of the newest own update."""
        return self.own.params if self.own else None

    def find(self, digest: Digest) -> Params | None:
        """The parameters of this digest, if a peer may fetch them here."""
        held = (self.model.shared if self.model else None, self.sent, self.stated_memory)
        return next((params for params in held if params is not None and params.digest == digest), None)

    # --- the trainer is loaded

    def begin(self, initial: Model, kept: Restored | None) -> str:
        """Hold the model that an earlier run kept, or the trainer's initial one.

        Returns:
            Why the one that was kept cannot be used; empty if it is, or there was none.
        """
        self.model = initial
        if kept is None or kept.params is None:
            return ""
        try:
            shared = initial.schema.conform(kept.params)
        except ParamsRefused as exc:
            self.rolled_back = False
            return text("the model that was kept does not fit the trainer any more: {reason}", exc)
        # A method of training that is new here begins with its own arrays, and a private head stays as it was learnt.
        fitting = {
            name: array
            for name, array in (kept.private or {}).items()
            if _form(array) == _form(initial.private.get(name))
        }
        model = initial.with_private(initial.private.merged_with(fitting)) if fitting else initial
        figures = kept.snapshot
        self.accuracy = figures.get("accuracy")
        origin = (figures.get("model_round", -1), figures.get("contributors", 0), figures.get("restored_at"))
        self.model = model.holding(shared, *origin)
        return ""

    def renew(self, initial: Model) -> bool:
        """The trainer was loaded with other data: keep the model if the parameters have the same names and shapes.

        Returns:
            Whether it was kept; else the job begins again with the trainer's initial parameters.
        """
        model = self.current
        if model.schema.digest != initial.schema.digest:
            self.forget()
            self.model, self.rolled_back = initial, False
            return False
        if Schema.of(model.private).digest != Schema.of(initial.private).digest:
            self.model = model.with_private(initial.private)
        return True

    def forget(self) -> None:
        """Discard the accuracy and the own update."""
        self.accuracy = self.own = None

    # --- a round

    def start_from(self, start: Start | None, was_held: bool) -> Start | None:
        """Decide about the initiator's model, before a round is trained.

        Before the first average it is due (a common start is essential, section 3.1). So is one that this node has
        held itself, if a person went back to it, or if the round leads on from the model that a person here went
        back to. Any other one is measured first.

        Args:
            was_held: whether this node has held it after an earlier round.

        Returns:
            The initiator's model; None if this node has it, or there is no start.
        """
        model = self.current
        if start is None or start.digest == model.shared.digest:
            return None
        if model.is_initial and start.round < 0:  # nobody has averaged yet
            start = replace(start, contributors=0)
        is_rollback = was_held and (start.restored_at is not None or self.rolled_back)
        return replace(start, is_due=model.is_initial or is_rollback)

    def start_with(self, start: Start, params: Params) -> Digest | None:
        """Hold the model that a round starts from.

        Returns:
            The model that a person had gone back to, and that is left now.
        """
        left = self.digest if self.rolled_back else None
        self.rolled_back = False
        self.model = self.current.holding(params, start.round, start.contributors, start.restored_at)
        return left

    def enter_round(self) -> None:
        """A round opens: nothing is measured in it yet."""
        self.accuracy = None

    def split(self, event: Trained) -> tuple[Params, Params]:
        """Split the result of a training into shared and private parameters.

        Raises:
            ParamsRefused: the shared ones are not what peers take.
        """
        specs = self.schema.specs
        shared = self.schema.conform(event.shared or event.params.select(specs))
        return shared, event.params.select(event.params.keys() - specs.keys())

    def learn(self, private: Params) -> None:
        """A training ended, and the private parameters with it."""
        self.model = self.current.with_private(private)

    def offer(self, own: Update) -> None:
        """This is the own update from now on."""
        self.own = own

    def own_of(self, key: RoundKey | None) -> Update | None:
        """The own update, if it is of this round."""
        return self.own if self.own is not None and self.own.key == key else None

    def average(
        self, params: Params, key: RoundKey, contributors: int, remembered: Params | None, has_mine: bool
    ) -> Digest | None:
        """The average of a round takes the place of the model.

        Args:
            contributors: how many updates went into it; 0 where other nodes need not have made it.
            remembered: what the aggregation rule remembers from now on.
            has_mine: whether this node's own update is in it.

        Returns:
            The model that a person had gone back to, where the average did not come of it.
        """
        left = self.digest if self.rolled_back and not has_mine else None
        self.rolled_back, self.remembered = False, remembered
        self.model = self.current.holding(params, key.number, contributors)
        return left

    def remember(self, remembered: Params | None) -> None:
        """Replace the memory of the aggregation rule."""
        self.remembered = remembered

    def memory(self, shared: SharedMemory) -> Params | None:
        """What a rule remembers here that shares its memory; None: nothing."""
        return shared.of(self.remembered, self.schema)

    def state_memory(self, shared: SharedMemory | None) -> Digest | None:
        """The digest of that memory, or NOTHING, for a new own update; peers may fetch it from now on.

        Args:
            shared: None under a rule that does not share its memory: then nothing is stated.
        """
        self.stated_memory = None if shared is None else self.memory(shared)
        if shared is None:
            return None
        return self.stated_memory.digest if self.stated_memory else NOTHING

    def measured(self, accuracy: float, private: Params | None = None) -> None:
        """The model was measured; private parameters may have learnt on from it."""
        self.accuracy = accuracy
        if private is not None:
            model = self.current
            self.model = model.with_private(model.private.merged_with(private), is_personal=True)

    def adopt(self, params: Params, round: int, contributors: int, accuracy: float) -> None:
        """A peer's model takes the place of the own average."""
        self.model, self.accuracy = self.current.holding(params, round, contributors), accuracy

    def make_version(
        self, params: Params, private: Params, number: int, contributors: int, accuracy: float
    ) -> None:
        """Replace the model with a version of this node, in an asynchronous mesh."""
        self.model = self.current.holding(params, number, contributors).with_private(private)
        self.accuracy, self.rolled_back = accuracy, False

    def compared(self, key: RoundKey, shared: Params) -> Evaluate:
        """Measure shared parameters, with the private ones of this node, to compare them with others.

        On validation rows where there are some, because test rows are for the figures that people read.
        """
        return Evaluate(key, shared.merged_with(self.current.private), shared, split="validation")

    def measure(self, key: RoundKey, hyper: HyperParams | None = None, *, validates: bool = False) -> Evaluate:
        """Measure the model on the own test split; private parameters that learn on from each average do so first.

        Args:
            validates: whether validation rows are measured too, because a goal is decided by them.
        """
        return Evaluate(key, self.current.full, self.current.shared, hyper, validates=validates)

    # --- what peers hold

    def conformed(self, claim: Claim) -> Claim:
        """A peer's claim, with parameters that fit ours.

        Raises:
            ParamsRefused: they do not.
        """
        if claim.params is None or self.model is None:
            return claim
        params = self.schema.conform(claim.params)
        return replace(claim, params=params, digest=params.digest)

    # --- a person goes back to a model

    def roll_back(self, event: RolledBack, number: int, trainer: TrainerId) -> None:
        """Go on from a model that this node held before; it counts as one of the round that was reached.

        Raises:
            JobBusy: that model is held anyway.
            ParamsRefused: it is of another shape than the trainer's models are now.
        """
        model = self.current
        shared = model.schema.conform(event.shared)
        private = Schema.of(model.private).conform(event.private)
        if shared.digest == model.shared.digest:
            raise JobBusy(text("{trainer} goes on from the model {digest} already", trainer, shared.digest[:10]))
        restored = model.holding(shared, event.round, event.contributors, restored_at=number)
        self.model, self.accuracy = restored.with_private(private), event.accuracy
        self.rolled_back = True

    # --- restarts

    def view(self) -> Mapping[str, Any]:
        """Its figures in the view of the job."""
        model = self.model
        return {
            "digest": self.digest,
            "schema_digest": model.schema.digest if model else None,
            "model_round": model.round if model else -1,
            "contributors": model.contributors if model else 0,
            "rolled_back": self.rolled_back,
        }

    def kept(self) -> Mapping[str, Any]:
        """The state that is saved for a restart, as plain JSON data; parameters are saved separately."""
        own = self.own
        return {
            "model_round": self.model.round if self.model else -1,
            "contributors": self.model.contributors if self.model else 0,
            "restored_at": self.model.restored_at if self.model else None,
            "accuracy": self.accuracy,
            "rolled_back": self.rolled_back,
            "own": None
            if own is None
            else {
                "round": own.key.number,
                "initiator": own.key.initiator,
                "examples": own.examples,
                "labels": own.labels,
                "accuracy": own.accuracy,
                "base": own.base,
                "staleness": own.staleness,
                "contribution": own.contribution.view() if own.contribution else None,
                **({"memory": own.memory} if own.memory else {}),
            },
        }

    def restore(self, kept: Restored) -> None:
        """Take up what an earlier run saved, as far as it needs no trainer."""
        self.remembered, self.rolled_back = kept.remembered, bool(kept.snapshot.get("rolled_back"))

    def restore_own(self, kept: Restored, me: PeerId, trainer: TrainerId, key: RoundKey | None = None) -> None:
        """Take up the own update, for peers may still fetch it; not if it does not fit the model any more.

        Args:
            key: the only round of which it may be; None: any.
        """
        figures = kept.snapshot.get("own")
        if figures is None or kept.sent is None:
            return
        of = RoundKey(figures["round"], PeerId(figures["initiator"]))
        if key is not None and of != key:
            return
        try:
            params = self.schema.conform(kept.sent)
        except ParamsRefused:
            return
        stated = figures.get("contribution")
        contribution = Contribution.read(stated, trainer, of.number, of.initiator) if stated else None
        examples, labels, accuracy = figures["examples"], figures["labels"], figures["accuracy"]
        memory = figures.get("memory")
        rest = (figures.get("base"), figures.get("staleness", 0), contribution, memory)
        self.own = Update(me, of, params, examples, labels, accuracy, *rest)
        if memory is not None and self.remembered is not None and self.remembered.digest == memory:
            self.stated_memory = self.remembered

    def first_version(self, me: PeerId, number: int, declaration: Declaration) -> None:
        """A node that was in common rounds before: the model of its last round is its first version."""
        model = self.current
        if model.round < 0:
            return
        rows = declaration.data.get("rows")
        examples = rows.get("train") if isinstance(rows, dict) else None
        key = RoundKey(number, me)
        self.own = Update(
            me, key, model.shared, examples if isinstance(examples, int) else 1, accuracy=self.accuracy
        )


def _form(array: Array | None) -> tuple[tuple[int, ...], str] | None:
    """Shape and type, by which a kept array fits."""
    return None if array is None else (array.shape, array.dtype.name)

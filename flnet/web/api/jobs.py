"""The jobs of this node: their state, and what a person may change of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from flnet.errors import InvalidMessage, JobBusy, NoProposal, NotReady, UnknownTrainer
from flnet.node.interface import EditHyperParams, Node
from flnet.params.params import TrainerId
from flnet.protocol.messages import PersonMessage, PlanRounds, Trigger, Triggered
from flnet.rounds.view import JobView, RuleProposalView
from flnet.text import text
from flnet.web.api.messages import message_body, receive
from flnet.web.routes import JOBS, UNREADABLE, Api

api = Api()
api.add(
    "POST",
    Trigger.path,
    JOBS,
    receive,
    what="Start one or more rounds",
    accepts=Trigger,
    answer=Triggered,
    status=202,
    refuses=(*UNREADABLE, UnknownTrainer, JobBusy),
    body=message_body,
)


@api.get("/jobs", JOBS, answer=list[JobView])
async def jobs(node: Node) -> Sequence[JobView]:
    """All jobs of this node."""
    return node.all_jobs()


@api.get("/jobs/<trainer>", JOBS, answer=JobView, refuses=(UnknownTrainer,))
async def job(node: Node, trainer: TrainerId) -> JobView:
    """One job."""
    return node.job(trainer)


@api.patch("/jobs/<trainer>/params", JOBS, answer=JobView, refuses=(UnknownTrainer, NotReady, JobBusy))
async def change_params(node: Node, trainer: TrainerId, asked: EditHyperParams) -> JobView:
    """Change hyper-parameters for the rounds that start here, or the aggregation rule of the job."""
    if not asked.fields():
        raise InvalidMessage(
            text('nothing to change: expected at least one of e, u, b, aggregation, such as {{"e": 2}}')
        )
    return await node.edit_hyper_params(trainer, asked)


class ProposeRule(PersonMessage):
    """POST /jobs/{trainerId}/proposals: an aggregation rule for all nodes, as FLNET_AGGREGATION is written."""

    aggregation: Annotated[str, Field(max_length=200)]


class AnswerProposal(PersonMessage):
    """POST /jobs/{trainerId}/proposals/answer: take the proposal with this mark, or decline it."""

    mark: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    takes: bool


@api.get("/jobs/<trainer>/proposals", JOBS, answer=list[RuleProposalView], refuses=(UnknownTrainer,))
async def proposals(node: Node, trainer: TrainerId) -> list[RuleProposalView]:
    """Ask the other nodes which aggregation rules they propose, and how far each is."""
    await node.rule_changes.look(trainer)
    return node.job(trainer).rule_proposals


@api.post(
    "/jobs/<trainer>/proposals",
    JOBS,
    answer=JobView,
    status=201,
    refuses=(UnknownTrainer, NotReady, InvalidMessage, JobBusy),
)
async def propose_rule(node: Node, trainer: TrainerId, asked: ProposeRule) -> JobView:
    """Propose an aggregation rule to the mesh: in force for all nodes when people of each of them have taken it."""
    await node.rule_changes.propose(trainer, asked.aggregation)
    return node.job(trainer)


@api.post(
    "/jobs/<trainer>/proposals/answer",
    JOBS,
    answer=JobView,
    refuses=(UnknownTrainer, NotReady, NoProposal, InvalidMessage, JobBusy),
)
async def answer_proposal(node: Node, trainer: TrainerId, asked: AnswerProposal) -> JobView:
    """Take or decline an aggregation rule that another node proposes."""
    await node.rule_changes.answer(trainer, asked.mark, takes=asked.takes)
    return node.job(trainer)


@api.delete("/jobs/<trainer>/proposals", JOBS, answer=JobView, refuses=(UnknownTrainer, NoProposal, JobBusy))
async def withdraw_proposal(node: Node, trainer: TrainerId) -> JobView:
    """Withdraw the aggregation rule that this node proposes, unless all nodes have taken it."""
    await node.rule_changes.withdraw(trainer)
    return node.job(trainer)


@api.put("/jobs/<trainer>/schedule", JOBS, answer=JobView, refuses=(UnknownTrainer, JobBusy))
async def plan(node: Node, trainer: TrainerId, asked: PlanRounds) -> JobView:
    """Set when rounds start automatically; null restores the schedule of the node's settings."""
    return await node.plan(trainer, asked.when)


@api.post("/jobs/<trainer>/stop", JOBS, answer=JobView, refuses=(UnknownTrainer,))
async def stop(node: Node, trainer: TrainerId) -> JobView:
    """End the series of rounds after the open round."""
    return await node.steer(trainer, "stop")


@api.post("/jobs/<trainer>/pause", JOBS, answer=JobView, refuses=(UnknownTrainer,))
async def pause(node: Node, trainer: TrainerId) -> JobView:
    """Pause the job: a training that is under way ends at once, and the job takes part in no round."""
    return await node.steer(trainer, "pause")


@api.post("/jobs/<trainer>/resume", JOBS, answer=JobView, refuses=(UnknownTrainer,))
async def resume(node: Node, trainer: TrainerId) -> JobView:
    """Resume the job: it takes part in rounds again."""
    return await node.steer(trainer, "resume")

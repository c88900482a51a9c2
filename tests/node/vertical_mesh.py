"""Meshes of whole nodes inside one process that hold different columns of the same people."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from flnet.compute.vertical import VerticalHost
from flnet.node.runtime import NodeRuntime
from flnet.rounds.vertical_job import VerticalJob
from flnet.trainer import TrainerFile
from tests.algorithms.vertical.holders import People
from tests.node.mesh import MNIST_3_7, Mesh

T = MNIST_3_7
FILES = (TrainerFile(T, "given", kind="vertical"),)


class HasHosts(Protocol):
    """People whose columns several nodes have."""

    def hosts(self) -> dict[str, VerticalHost]:
        """The trainer of each node as its compute queue has it."""


@asynccontextmanager
async def vertical_mesh(
    people: HasHosts, bystanders: Mapping[str, Any] = {}, **settings: Any
) -> AsyncIterator[Mesh]:
    """Nodes with the tables of these people, and bystanders with other trainers; all know each other."""
    mesh = Mesh()
    try:
        first: tuple[str, ...] = ()
        for name, host in people.hosts().items():
            await mesh.add(name, host, first, files=FILES, **settings)
            first = first or (name,)
        for name, trainer in bystanders.items():
            await mesh.add(name, trainer, first, **settings)
        await mesh.full()
        yield mesh
    finally:
        await mesh.stop()


def job_of(node: NodeRuntime) -> VerticalJob:
    """The vertical job of a node."""
    job = node.core.jobs[T]
    assert isinstance(job, VerticalJob)
    return job


def host_of(people: People, name: str) -> VerticalHost:
    """A trainer of these people, made again."""
    return people.hosts()[name]

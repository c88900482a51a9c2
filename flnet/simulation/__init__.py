"""A whole mesh in one process: in-memory network, virtual clock, seeded faults."""

from flnet.simulation.clock import VirtualClock
from flnet.simulation.cluster import Cluster
from flnet.simulation.ledger import InvariantBroken, Ledger
from flnet.simulation.node import TRAINER
from flnet.simulation.weather import Weather

__all__ = ["TRAINER", "Cluster", "InvariantBroken", "Ledger", "VirtualClock", "Weather"]

"""Signed requests between nodes, and signed answers (RFC 9421): who sent what to whom, once; no I/O."""

from flnet.signing.base import EMPTY, MeshKey, NodeKey
from flnet.signing.gate import Caller, Gate
from flnet.signing.seal import Proven, Seal, Sealed

__all__ = ["EMPTY", "Caller", "Gate", "MeshKey", "NodeKey", "Proven", "Seal", "Sealed"]

"""In which form a message goes to a peer: with its parameters, or with their digest only."""

from __future__ import annotations

from flnet.messages import SAFETENSORS, Message, ModelParams
from flnet.params import Params

PUSH_BYTES = 1024 * 1024  # of an update: smaller ones are sent at once, larger ones are fetched when there is room


def goes_along(
    message: Message, params: Params | None, accepts: frozenset[str], push_bytes: int = PUSH_BYTES
) -> bool:
    """Whether the parameters travel beside the message.

    Who reads nothing but the thesis' JSON gets all of them. Between others a start and a claim name a digest: in a
    mesh that is whole everybody holds that model already. An update is news to everybody.
    """
    if params is None or SAFETENSORS not in accepts:
        return True
    return isinstance(message, ModelParams) and params.nbytes <= push_bytes

import random
from contextlib import nullcontext
from hashlib import sha256

import pytest

from flnet.errors import PeerError
from flnet.events import AnnounceReceived
from flnet.membership import Members, MeshState
from flnet.messages import Accuracy, Announce, Probe
from flnet.messages import Peer as Named
from flnet.node.door import MOST_TOLD, Door, check_speaker, check_trusted
from flnet.node.trust import Trust
from flnet.signing.refusals import NotAccepted, Pending, SignatureNeeded, SignatureRefused
from tests.signing.keypairs import OTHER_MESH, TestKey, gate, learnt, seal, sent

A, B = TestKey(1).text, TestKey(2).text
JSON = {"Content-Type": "application/json"}


class Told(list[str]):
    def __call__(self, kind: str, words: str) -> None:
        assert kind == "refused_here"
        self.append(words)


def door() -> tuple[Door, Told]:
    told = Told()
    return Door(gate(), told), told


def test_who_signed_enters_and_is_answered_with_a_signature() -> None:
    here, told = door()
    request = sent(learnt(seal(), gate()))

    caller = here.enter("POST", "/announce", "", {**JSON, **request.headers}.get, "10.0.0.1")
    answer = here.answer(caller, 201, "application/json", sha256(b"{}").digest())

    proven = request.answered(201, {**JSON, **answer}.get)
    assert caller.key == A and proven is not None and proven.key == B
    assert told == []


def test_a_stranger_is_told_of_once() -> None:
    here, told = door()

    for _ in range(3):
        with pytest.raises(SignatureNeeded):
            here.enter("POST", "/announce", "", JSON.get, "10.0.0.1")
    assert len(told) == 1 and "10.0.0.1 to /announce" in told[0]


def test_who_has_a_wrong_key_is_told_of_once() -> None:
    here, told = door()
    stranger = learnt(seal(mesh=OTHER_MESH), gate())

    for _ in range(3):
        with pytest.raises(SignatureRefused):
            here.enter("POST", "/announce", "", {**JSON, **sent(stranger).headers}.get, "10.0.0.1")
    assert len(told) == 1 and "FLNET_MESH_KEY" in told[0]


def test_the_first_call_of_a_node_that_can_sign_is_no_news() -> None:
    here, told = door()
    restarted = learnt(seal(), gate(session="e" * 32))

    for request in (sent(seal()), sent(restarted)):
        with pytest.raises(SignatureNeeded):
            here.enter("POST", "/announce", "", {**JSON, **request.headers}.get, "10.0.0.1")
    assert told == []


def test_no_flood_of_strangers_fills_the_page() -> None:
    here, told = door()
    for number in range(MOST_TOLD + 10):
        here.tell(f"10.0.{number // 256}.{number % 256}", "/announce", PeerError("no"))

    assert len(told) == MOST_TOLD


def members() -> Members:
    known = Members(MeshState(Named(id="b", ip="10.0.0.2", port=1), random.Random(0)))
    known.receive(AnnounceReceived(Named(id="a", ip="10.0.0.1", port=1), (), key=A))
    return known


CLAIM = {"trainerId": "T", "round": 0, "federatedLearningParams": {"e": 1, "u": 0.1, "b": 1}, "accuracy": 0.5}


def test_a_node_speaks_in_its_own_name() -> None:
    claim = Accuracy.read({**CLAIM, "iAm": {"id": "a", "port": 1}})

    check_speaker(members(), claim, A)
    check_speaker(members(), claim, "")
    with pytest.raises(SignatureRefused, match="another node than 'a'"):
        check_speaker(members(), claim, B)


@pytest.mark.parametrize("kind", [Announce, Probe])
def test_the_key_in_a_message_is_the_one_that_signed_it(kind: type[Announce] | type[Probe]) -> None:
    message = kind(i_am=Named(id="a", ip="10.0.0.1", port=1), key=A)

    check_speaker(members(), message, A)
    for said in (message, kind(i_am=message.i_am)):
        with pytest.raises(SignatureRefused, match="another key"):
            check_speaker(members(), said, B)


async def pinned_door() -> tuple[Door, Trust, Told]:
    """A door of a pinned mesh, and whom it lets in: A."""
    trust, told = Trust(B), Told()
    await trust.accept(A)
    return Door(gate(mesh=None), told, trust), trust, told


async def test_strangers_of_a_pinned_mesh_may_announce_themselves_and_nothing_else() -> None:
    here, trust, told = await pinned_door()
    for path, key, refused in (
        ("/announce", 1, False),
        ("/probe", 1, False),
        ("/announce", 3, False),
        ("/probe", 3, True),
    ):
        request = sent(learnt(seal(key, mesh=None, run=f"{path == '/probe':016x}"), gate(mesh=None)), path=path)
        with pytest.raises(NotAccepted) if refused else nullcontext():
            here.enter("POST", path, "", {**JSON, **request.headers}.get, "10.0.0.1")
    assert len(told) == 1
    await trust.reject(TestKey(3).text)
    request = sent(learnt(seal(3, mesh=None, run="f" * 16), gate(mesh=None)))
    with pytest.raises(NotAccepted):
        here.enter("POST", "/announce", "", {**JSON, **request.headers}.get, "10.0.0.1")


@pytest.mark.parametrize(
    ("signer", "knock", "waits", "words"),
    [(1, None, False, ""), (1, True, False, "waits to be accepted in turn"), (3, None, True, "has to accept")],
)
async def test_two_nodes_are_peers_only_if_both_have_accepted_each_other(
    signer: int, knock: bool | None, waits: bool, words: str
) -> None:
    _, trust, _ = await pinned_door()
    peer = Named(id="a", ip="10.0.0.1", port=1)
    said = Announce(i_am=peer, key=TestKey(signer).text, knock=knock)
    with pytest.raises(Pending, match=words) if words else nullcontext():
        check_trusted(trust, said, AnnounceReceived(peer), TestKey(signer).text, "me")
    assert bool(trust.pending()) is waits
    check_trusted(None, said, AnnounceReceived(peer), "", "me")  # of another mesh

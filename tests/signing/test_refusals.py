from flnet.errors import PeerError
from flnet.signing.refusals import SignatureNeeded, SignatureRefused


def test_callers_are_at_fault_and_told_apart() -> None:
    assert issubclass(SignatureNeeded, PeerError) and issubclass(SignatureRefused, PeerError)
    assert (SignatureNeeded.status, SignatureRefused.status) == (401, 403)
    assert SignatureNeeded.code != SignatureRefused.code

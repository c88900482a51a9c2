"""The secrets of one node in one secure sum: its masks, the shares of them, and how a sum is opened.

K. Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning", ACM CCS 2017, protocol for
honest but curious participants, without its server: every node adds up and opens for itself.

1. Each node draws two X25519 keys and a seed, and publishes the public keys and a hash of the seed (`Public`).
2. It splits its mask key and its seed with Shamir's scheme, and sends each member one share of both, encrypted for that
   member alone (`SumSecrets.shares_for`, `SumSecrets.take_shares`).
3. It sends its vector plus a mask made from its seed, and plus or minus a mask for each other member, made from the key
   that the two agree on (`SumSecrets.mask`). Pair masks cancel in a sum over all members.
4. When nodes agree on who is in the sum, each gives its shares of the seeds of those nodes, and of the mask keys of the
   other members (`SumSecrets.reveal`), never both of one node.
5. With `threshold` shares each, `unmask` rebuilds the self masks of the nodes in the sum and the pair masks with the
   others, and takes them off.

All keys are derived with HKDF-SHA256 from a secret and from the group: the context of the sum, the names and public values
of all members in sorted order, and the threshold. Two nodes that do not see the same group cannot read each other's shares,
so none of them goes on with another group than the others. Each derived key is used once, so nonces are 0.

Secrets are in memory only. They cannot be copied or pickled, and no `repr` shows one.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import math
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Literal, NamedTuple, NoReturn

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from flnet.algorithms.secure_sum import Numbers, add_signed, pair_sign
from flnet.algorithms.shamir import SECRET_BYTES, SHARE_BYTES, join, share_number, split, value_at
from flnet.errors import InvalidMessage, LocalError
from flnet.text import text

KEY_BYTES = 32
TRIES = 500  # sets of shares that are tried for one secret before it counts as lost
_BLOCK = 65_536  # bytes of key stream at a time, so that they stay in a core's cache
_NONCE, _STREAM_NONCE = bytes(12), bytes(16)
_CHECK_KEY = X25519PrivateKey.from_private_bytes(bytes([1] * KEY_BYTES))
Kind = Literal["self", "pair"]


def bound_to(label: str, *fields: str | int | bytes) -> bytes:
    """Fields as bytes that no other label or fields give: each has its length before it."""
    parts = [
        field if isinstance(field, bytes) else str(field).encode()
        for field in ("flnet-secure-sum-1", label, *fields)
    ]
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


@dataclass(frozen=True)
class Public:
    """What a node publishes for one sum.

    Attributes:
        share_key: X25519 public key for which shares are encrypted.
        mask_key: X25519 public key from which pair masks follow.
        commitment: hash of the seed of the self mask.
    """

    share_key: bytes
    mask_key: bytes
    commitment: bytes

    @property
    def encoded(self) -> str:
        """Base64 of the three, in one line."""
        return base64.b64encode(self.share_key + self.mask_key + self.commitment).decode()

    @classmethod
    def read(cls, encoded: str) -> Public:
        """Read the result of `encoded`.

        Raises:
            InvalidMessage: it is malformed, or a key is one with which every secret would be 0.
        """
        try:
            data = base64.b64decode(encoded, validate=True)
        except ValueError:
            data = b""
        found = cls(data[:KEY_BYTES], data[KEY_BYTES : 2 * KEY_BYTES], data[2 * KEY_BYTES :])
        if len(data) != 3 * KEY_BYTES or found.encoded != encoded:
            raise InvalidMessage(
                text("the public values of a secure sum are no base64 of {count} bytes", 3 * KEY_BYTES)
            )
        for key in (found.share_key, found.mask_key):
            _agreed(_CHECK_KEY, key)
        return found


@dataclass(frozen=True)
class Revealed:
    """One share that a node gives when a sum is opened.

    Attributes:
        kind: of the seed of a self mask ("self") or of a mask key ("pair").
        share: of Shamir's scheme.
    """

    kind: Kind
    share: bytes = field(repr=False)


class MaskingGroup:
    """The members of one sum, as all of them have to see it.

    Attributes:
        names: of the members, sorted; the place of a member plus 1 is the x of its shares.
    """

    def __init__(self, context: bytes, members: Mapping[str, Public], threshold: int) -> None:
        """Fix the group.

        Args:
            context: of the sum.
            members: all of them, and what each has published.
            threshold: how many shares open a secret.

        Raises:
            InvalidMessage: the threshold is not above half of the members, or two members published the same.
        """
        self.context, self.members, self.threshold = context, dict(members), threshold
        self.names = sorted(members)
        count = len(members)
        if not count < 2 * threshold <= 2 * count:
            raise InvalidMessage(
                text(
                    "a threshold of {threshold} for {count} members; expected more than half of them",
                    threshold,
                    count,
                )
            )
        keys = [value for public in members.values() for value in (public.share_key, public.mask_key)]
        if len({*keys}) < len(keys):
            raise InvalidMessage(text("two members of a secure sum published the same key"))

    @cached_property
    def digest(self) -> bytes:
        """What all keys of the sum are derived from: context, members and threshold."""
        fields = [part for name in self.names for part in (name, self.members[name].encoded)]
        return hashlib.sha256(bound_to("group", self.context, self.threshold, *fields)).digest()

    def x(self, name: str) -> int:
        """The place of a member's shares."""
        return self.names.index(name) + 1

    def self_key(self, owner: str, seed: bytes) -> bytes:
        """The key of the stream that is the self mask of this member."""
        return self._derived(seed, "self-mask", owner)

    def pair_key(self, me: str, mine: X25519PrivateKey, other: str) -> bytes:
        """The key of the stream that is the mask of these two members, the same for both."""
        return self._derived(_agreed(mine, self.members[other].mask_key), "pair-mask", *sorted((me, other)))

    def share_key(self, mine: X25519PrivateKey, other: str, sender: str, receiver: str) -> bytes:
        """The key under which the shares of `sender` travel to `receiver`; `other` is the one that is not me."""
        return self._derived(_agreed(mine, self.members[other].share_key), "shares", sender, receiver)

    def _derived(self, secret: bytes, label: str, *names: str) -> bytes:
        info = bound_to(label, self.digest, *names)
        return HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(secret)


def commitment(context: bytes, owner: str, seed: bytes) -> bytes:
    """The hash by which a rebuilt seed is recognised; it says nothing about the seed, which is drawn evenly."""
    return hashlib.sha256(bound_to("seed", context, owner, seed)).digest()


class SumSecrets:
    """The secrets of one node in one sum.

    Each step is done once, because a second answer would open what the first one hides: whoever sees two vectors under the
    same masks knows their difference, and whoever has both kinds of shares of a node knows what it sent. To repeat a sum,
    make new secrets under another context.
    """

    def __init__(self, context: bytes, me: str, random: Callable[[int], bytes] = secrets.token_bytes) -> None:
        """Draw the secrets.

        Args:
            context: of the sum, never used for another one: mesh, trainer, round and attempt.
            me: the name of this node.
            random: source of secret bytes.
        """
        self._context, self._me, self._random = context, me, random
        seed = random(SECRET_BYTES)
        share_key, mask_key = (X25519PrivateKey.from_private_bytes(random(KEY_BYTES)) for _ in range(2))
        self._share_key = share_key
        self._own: tuple[bytes, X25519PrivateKey] | None = seed, mask_key
        self._group: MaskingGroup | None = None
        self._shares: dict[str, tuple[bytes, bytes]] = {}  # by owner, of its mask key and of its seed
        self._revealed: tuple[frozenset[str], Mapping[str, Revealed]] | None = None  # for these contributors
        self.public = Public(
            share_key.public_key().public_bytes_raw(),
            mask_key.public_key().public_bytes_raw(),
            commitment(context, me, seed),
        )

    def __repr__(self) -> str:
        return f"SumSecrets({self._me!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("the secrets of a sum are neither copied nor written")

    def shares_for(self, members: Mapping[str, Public], threshold: int) -> Mapping[str, bytes]:
        """Split the secrets: for each other member its shares, encrypted. Once only.

        Args:
            members: this node among them.
            threshold: how many shares open a secret, above half of the members.

        Raises:
            InvalidMessage: the group is not one for a sum (`MaskingGroup`), or a key in it is none.
            LocalError: shares were made before, or this node is no member as it is.
        """
        if self._group is not None or self._own is None:
            raise LocalError(text("the shares of this sum were made before"))
        if members.get(self._me) != self.public:
            raise LocalError(text("{peer} is no member of this sum with its own public values", repr(self._me)))
        group, (seed, mask_key) = MaskingGroup(self._context, members, threshold), self._own
        count = len(members)
        split_key = split(mask_key.private_bytes_raw(), threshold, count, self._random)
        pairs = dict(
            zip(group.names, zip(split_key, split(seed, threshold, count, self._random), strict=True), strict=True)
        )
        sent = {
            name: ChaCha20Poly1305(group.share_key(self._share_key, name, self._me, name)).encrypt(
                _NONCE, b"".join(pair), _header(group, self._me, name)
            )
            for name, pair in pairs.items()
            if name != self._me
        }
        self._group, self._shares = group, {self._me: pairs[self._me]}
        return sent

    def take_shares(self, sender: str, ciphertext: bytes) -> None:
        """Decrypt and keep the shares that another member made for this node.

        Raises:
            InvalidMessage: the sender is no other member, or sent shares before, or these are not for this node, sum and
                group.
            LocalError: this node has not made its own shares.
        """
        group = self.group
        if sender == self._me or sender not in group.members:
            raise InvalidMessage(text("{peer} is no other member of this secure sum", repr(sender)))
        if sender in self._shares:
            raise InvalidMessage(text("{peer} sent its shares of this secure sum before", repr(sender)))
        key = group.share_key(self._share_key, sender, sender, self._me)
        try:
            data = ChaCha20Poly1305(key).decrypt(_NONCE, ciphertext, _header(group, sender, self._me))
            pair = data[:SHARE_BYTES], data[SHARE_BYTES:]
            for share in pair:
                share_number(group.x(self._me), share)
        except (InvalidTag, ValueError) as exc:
            raise InvalidMessage(
                text(
                    "the shares of {peer} cannot be read: they are damaged, or not made for {me} and this secure sum",
                    repr(sender),
                    repr(self._me),
                )
            ) from exc
        self._shares[sender] = pair

    def mask(self, vector: Numbers) -> Numbers:
        """The vector under the self mask and the pair masks. Once only; afterwards the own secrets are gone here.

        Args:
            vector: of uint32 or uint64, one dimension.

        Raises:
            LocalError: it was masked before, or a sum was opened.
            ValueError: the vector has another dtype or more dimensions.
        """
        group = self.group
        _check_vector(vector)  # before the secrets are used up
        if self._own is None or self._revealed is not None:
            raise LocalError(text("a vector was masked in this sum before, or the sum was opened"))
        (seed, mask_key), self._own = self._own, None
        others = [name for name in group.names if name != self._me]
        streams = [
            (group.self_key(self._me, seed), 1),
            *((group.pair_key(self._me, mask_key, other), pair_sign(self._me, other)) for other in others),
        ]
        return with_streams(vector, streams)

    def reveal(self, contributors: Collection[str]) -> Mapping[str, Revealed]:
        """This node's part in opening a sum: shares of the seeds of those in it, and of the mask keys of the others.

        For one set only; asked for the same again, it gives the same.

        Args:
            contributors: who is in the sum, at least `threshold` members, as all of them agreed.

        Returns:
            By owner; members whose shares did not arrive here are left out.

        Raises:
            LocalError: it revealed for another set before, or the set is no sufficient part of the group.
        """
        group = self.group
        inside = self._part_of(contributors, group)
        if self._revealed is not None:
            if self._revealed[0] != inside:
                raise LocalError(text("this sum was opened for other contributors"))
            return self._revealed[1]
        kinds: dict[str, Kind] = {name: "self" if name in inside else "pair" for name in group.names}
        given = {
            name: Revealed(kind, self._shares[name][kind == "self"])
            for name, kind in kinds.items()
            if name in self._shares
        }
        self._revealed = inside, given
        return given

    @property
    def group(self) -> MaskingGroup:
        """The members, once this node has made shares for them.

        Raises:
            LocalError: it has not.
        """
        if self._group is None:
            raise LocalError(text("the members of this sum are not fixed yet"))
        return self._group

    @staticmethod
    def _part_of(names: Collection[str], group: MaskingGroup) -> frozenset[str]:
        part = frozenset(names)
        if not part <= group.members.keys() or len(part) < group.threshold:
            raise LocalError(
                text(
                    "a sum over {count} of {all} members; expected at least {threshold} of them",
                    len(part & group.members.keys()),
                    len(group.members),
                    group.threshold,
                )
            )
        return part


class Unmasked(NamedTuple):
    """A sum without its masks.

    Attributes:
        numbers: the sum modulo 2^bits.
        suspects: holders of a share that does not fit the secret that it is said to be of, or is of the wrong kind. It is
            no proof: several liars together can make an honest holder look like one.
    """

    numbers: Numbers
    suspects: frozenset[str]


def unmask(
    total: Numbers,
    group: MaskingGroup,
    contributors: Collection[str],
    revealed: Mapping[str, Mapping[str, Revealed]],
) -> Unmasked:
    """Take the masks off a sum.

    Every rebuilt secret is compared with what its owner published, so wrong shares cannot change the result. Where one does
    not fit, other shares are tried, 500 sets of them for a secret at most.

    Args:
        total: the sum of the masked vectors of the contributors, modulo 2^bits.
        contributors: who is in the sum.
        revealed: by holder and owner, what members gave (`SumSecrets.reveal`).

    Raises:
        InvalidMessage: a secret cannot be rebuilt: too few members gave a share of it, or too many of these are wrong.
    """
    inside, outside = sorted(contributors), sorted({*group.names} - {*contributors})
    shares, rebuilt = GatheredShares(group, revealed), []
    for owner in inside:
        seed = shares.secret(owner, "self")
        rebuilt.append((group.self_key(owner, seed), -1))
    for owner in outside:
        mine = X25519PrivateKey.from_private_bytes(shares.secret(owner, "pair"))
        rebuilt += [(group.pair_key(owner, mine, name), -pair_sign(name, owner)) for name in inside]
    return Unmasked(with_streams(total, rebuilt), frozenset(shares.suspects))


class GatheredShares:
    """Rebuilds secrets from the shares that members revealed, of which some may be wrong.

    Attributes:
        suspects: as in `Unmasked`, of the secrets so far.
    """

    def __init__(self, group: MaskingGroup, revealed: Mapping[str, Mapping[str, Revealed]]) -> None:
        """Args:
        revealed: by holder and owner; those who are no members do not count.
        """
        self._group = group
        self._revealed = {name: revealed[name] for name in group.names if name in revealed}
        self.suspects: set[str] = set()

    def secret(self, owner: str, kind: Kind) -> bytes:
        """The seed ("self") or the mask key ("pair") of this member.

        Raises:
            InvalidMessage: too few shares of it are here, or too many of them are wrong.
        """
        points = self._points(owner, kind)
        least = self._group.threshold
        if len(points) < least:
            raise InvalidMessage(
                text(
                    "this sum stays closed: {count} members gave a share of a secret of {peer}, and {threshold} are needed",
                    len(points),
                    repr(owner),
                    least,
                )
            )
        for chosen in self._choices(points):
            try:
                secret = join({x: points[x] for x in chosen}, least)
            except ValueError:
                continue
            if self._fits(owner, kind, secret):
                self._compare(points, chosen)
                return secret
        raise InvalidMessage(
            text("this sum stays closed: too many shares of a secret of {peer} are wrong", repr(owner))
        )

    def _points(self, owner: str, kind: Kind) -> dict[int, bytes]:
        """The shares by x, those of suspects last."""
        points = {}
        for holder in sorted(self._revealed, key=lambda name: (name in self.suspects, name)):
            given = self._revealed[holder].get(owner)
            if given is None:
                continue
            try:
                share_number(self._group.x(holder), given.share)
            except ValueError:
                self.suspects.add(holder)
                continue
            if given.kind == kind:
                points[self._group.x(holder)] = given.share
            else:
                self.suspects.add(holder)
        return points

    def _choices(self, points: Mapping[int, bytes]) -> Iterator[tuple[int, ...]]:
        """Sets of `threshold` shares to try, the most trusted first; the same on all nodes."""
        places, least = list(points), self._group.threshold
        if math.comb(len(places), least) <= TRIES:
            yield from itertools.combinations(places, least)
            return
        yield tuple(places[:least])
        draws = Random(self._group.digest)
        yield from (tuple(draws.sample(places, least)) for _ in range(TRIES - 1))

    def _fits(self, owner: str, kind: Kind, secret: bytes) -> bool:
        public = self._group.members[owner]
        if kind == "self":
            return commitment(self._group.context, owner, secret) == public.commitment
        return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw() == public.mask_key

    def _compare(self, points: Mapping[int, bytes], right: Collection[int]) -> None:
        """Suspect who gave a share beside the polynomial through the right ones."""
        known = {x: share_number(x, points[x]) for x in right}
        wrong = (x for x in points if x not in known and value_at(x, known) != share_number(x, points[x]))
        self.suspects.update(self._group.names[x - 1] for x in wrong)


def with_streams(vector: Numbers, streams: Sequence[tuple[bytes, int]]) -> Numbers:
    """The vector plus (1) or minus (-1) the ChaCha20 streams of these keys, block by block.

    Args:
        vector: uint32 or uint64, one dimension; not changed.
        streams: key of 32 bytes, used for nothing else, and sign.

    Raises:
        ValueError: the vector has another dtype or more dimensions.
    """
    _check_vector(vector)
    result = np.array(vector)
    little = result.dtype.newbyteorder("<")
    zeros, room = memoryview(bytes(_BLOCK)), bytearray(_BLOCK)
    opened = [(Cipher(algorithms.ChaCha20(key, _STREAM_NONCE), None).encryptor(), sign) for key, sign in streams]
    step = _BLOCK // result.itemsize
    for start in range(0, result.size, step):
        part = result[start : start + step]
        for stream, sign in opened:
            stream.update_into(zeros[: part.nbytes], room)
            add_signed(part, np.frombuffer(room, little, part.size), sign)
    return result


def _check_vector(vector: Numbers) -> None:
    if vector.ndim != 1 or vector.dtype not in (np.uint32, np.uint64):
        raise ValueError(
            text(
                "an array of {dtype} with shape {shape}; expected a vector of uint32 or uint64",
                vector.dtype,
                vector.shape,
            )
        )


def _agreed(mine: X25519PrivateKey, theirs: bytes) -> bytes:
    try:
        return mine.exchange(X25519PublicKey.from_public_bytes(theirs))
    except ValueError as exc:  # a point of low order gives a secret of zeros, which everybody knows
        raise InvalidMessage(
            text("a public key of a secure sum is none: no secret can be agreed on with it")
        ) from exc


def _header(group: MaskingGroup, sender: str, receiver: str) -> bytes:
    return bound_to("shares", group.digest, sender, receiver)

"""Any bytes give a packet or a PeerError: both codecs, tensor files and compressed bodies, fed with seeded noise.

    python -m tests.fuzz.codecs --inputs 1000000

prints how many inputs were read and refused, how fast, and the most memory. An input that does anything else is
written to a file, and the exit code is 1. Small inputs that were of interest are kept in tests/fuzz/corpus.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import zstandard

from flnet.errors import PeerError
from flnet.params.blob import Landing
from flnet.params.params import Params
from flnet.params.quantization import lowered
from flnet.params.safetensors import read_header
from flnet.protocol.messages import Message, ModelParams, Packet, Probe, Trigger
from flnet.wire.binary_codec import BinaryCodec, decompress, read_head
from flnet.wire.json_codec import JsonCodec
from tests.fuzz.bodies import bodies, kinds
from tests.fuzz.mutate import mutated, nested
from tests.helpers import HYPER, params, peer
from tests.wire.bodies import PRINTED

CORPUS = Path(__file__).with_name("corpus")
KINDS = kinds()
TENSOR_READERS = ("binary", "bare", "head", "header")
READERS = ("json", *TENSOR_READERS, "zstd")
BY_SUFFIX = {".json": ("json",), ".safetensors": TENSOR_READERS, ".zst": ("zstd",)}
LIMIT = 1024 * 1024  # bytes that a body may become
MOST_WORDS = 2500  # characters of a refusal
JSON, BINARY = JsonCodec(), BinaryCodec()
UPDATE = ModelParams(i_am=peer(), trainer_id="MNIST", round=3, federated_learning_params=HYPER)
PROBE = (
    b'{"iAm":{"id":"A","ip":null,"port":"4000"},"news":[{"id":"B","port":"1","state":"alive","incarnation":2}]}'
)
TRIGGER = (
    b'{"trainerId":"MNIST","rounds":3,"federatedLearningParams":{"e":1,"u":0.01,"b":64},"until":"accuracy>=0.9"}'
)


def seeds() -> list[tuple[bytes, tuple[str, ...], type[Message]]]:
    """Sound bodies of every form and what is kept in the corpus: the bytes, their readers, and their kind."""
    big = Params({"w": np.linspace(-1, 1, 1100, dtype=np.float32), "t": np.array(True)})
    small = Packet(UPDATE, params(w=[[1.5, 2.5]], n=np.array([1, -2], np.int16)))
    packed = bytes(BinaryCodec("int8-blocks").encode(Packet(UPDATE, lowered(big, None, "int8-blocks")[0])))
    texts = [(kind, text.encode()) for kind, text in PRINTED]
    texts += [(kind, body) for kind in KINDS for body in bodies(kind)]
    texts += [(Probe, PROBE), (Trigger, TRIGGER), (ModelParams, JSON.encode(small))]
    tensors = [bytes(BINARY.encode(small)), bytes(BINARY.encode_params(small.params or Params())), packed]
    tensors.append(bytes(BinaryCodec("int8").encode(Packet(UPDATE, lowered(big, None, "int8")[0]))))
    pressed = [zstandard.compress(packed), zstandard.compress(bytes(4096))]
    kept = [(path.suffix, path.read_bytes()) for path in sorted(CORPUS.iterdir())]
    return [
        *((text, ("json",), kind) for kind, text in texts),
        *((body, TENSOR_READERS, ModelParams) for body in tensors),
        *((body, ("zstd",), ModelParams) for body in pressed),
        *((body, BY_SUFFIX[suffix], ModelParams) for suffix, body in kept),
    ]


def reader(name: str, kind: type[Message]) -> Callable[[bytes], object]:
    """One of all that is ever done with bytes from outside before they are a message."""
    return {
        "json": lambda data: JSON.decode(kind, data),
        "binary": lambda data: BINARY.decode(kind, data),
        "bare": BINARY.decode_params,
        "head": lambda data: read_head(memoryview(data), len(data)),
        "header": lambda data: read_header(memoryview(data), len(data)),
        "zstd": unpacked,
    }[name]


def unpacked(data: bytes) -> object:
    """Decompressed as what was fetched is, under the limits of a body."""
    landing = Landing(lambda head, total: read_head(head, total) is not None, LIMIT, LIMIT)
    decompress(memoryview(data), landing)
    return landing.whole()


def outcome(read: Callable[[bytes], object], data: bytes) -> str:
    """Whether it was read or refused; anything else is raised as it is."""
    try:
        found = read(data)
    except PeerError as exc:
        if len(exc.message) > MOST_WORDS:
            raise ValueError(f"{len(exc.message)} characters of refusal") from exc
        return "refused"
    if isinstance(found, Packet):
        assert found.message.fields() is not None
    return "read"


def inputs(rng: Random, count: int) -> Iterator[tuple[str, type[Message], bytes]]:
    """So many inputs, each with the reader and the kind of message that it is for; one in eight is for another."""
    sound = seeds()
    pieces = [body for body, _, _ in sound]
    forms = [[seed for seed in sound if seed[1] == names] for names in BY_SUFFIX.values()]
    for number in range(count):
        body, names, kind = rng.choice(rng.choice(forms))  # there are many more of JSON than of the others
        if rng.random() < 1 / 8:
            names, kind = READERS, rng.choice(KINDS)
        deep = number % 5000 == 0
        data = nested(rng, rng.choice((10, 1025, 200_000))) if deep else mutated(rng, body, pieces)
        yield rng.choice(names), kind, data


def fuzz(count: int, seed: int, keep: Path) -> Counter[str]:
    """Feed so many inputs, each to one reader; what neither reads nor refuses its input is written down.

    Raises:
        AssertionError: there was such an input; the message names its file.
    """
    told = Counter[str]()
    for name, kind, data in inputs(Random(seed), count):
        begun = time.process_time()
        try:
            told[f"{name} {outcome(reader(name, kind), data)}"] += 1
        except BaseException as exc:
            path = keep / f"broke-{name}-{kind.__name__}-{seed}.bin"
            path.write_bytes(data)
            raise AssertionError(f"{name}: {type(exc).__name__}: {exc}; the input is in {path}") from exc
        told["longest in ms"] = max(told["longest in ms"], int(1000 * (time.process_time() - begun)))
    return told


def main() -> int:
    """Fuzz, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    begun = time.monotonic()
    try:
        told = fuzz(asked.inputs, asked.seed, Path(tempfile.gettempdir()))
    except AssertionError as exc:
        print(exc, file=sys.stderr)
        return 1
    seconds = time.monotonic() - begun
    for name, count in sorted(told.items()):
        print(f"{name:16} {count:>10}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{asked.inputs} inputs, seed {asked.seed}: {asked.inputs / seconds:.0f} per second, {peak} MB at most")
    return 0


if __name__ == "__main__":
    sys.exit(main())

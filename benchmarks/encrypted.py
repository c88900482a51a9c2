"""Encrypted regression, compared with the same run in clear text, and with Paillier by `phe` where that is installed.

Breast cancer, 10 columns and labels at A and 20 columns at B, 455 rows to train and 114 held out. All three positions
run in one process, and seconds are its processor time; on three machines, A's and B's parts of a batch partly overlap.
`python -m benchmarks.encrypted ckks|plain EPOCHS BATCH` prints one run as JSON. An epoch over a mesh is one of three real
nodes, with new keys; its seconds are those of the clock, without the asking before.

`phe` is under the GPL and no dependency of flnet: for the comparison, install it into a folder of its own and name that
in PYTHONPATH. It is faster with gmpy2, which it uses where it finds it.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from statistics import median
from typing import Any

import numpy as np

from benchmarks.nodes import Ask, mesh
from benchmarks.options import Options, in_process
from benchmarks.report import Row
from flnet.algorithms.vertical import encrypted_regression as regression
from flnet.algorithms.vertical.encrypted_regression import (
    EncryptedGradients,
    LossMeasured,
    Message,
    Position,
    RegressionPlan,
)
from flnet.algorithms.vertical.encryption import PlainScheme, SecretScheme
from flnet.algorithms.vertical.taylor_regression import fixed_batches, signed_labels, standardise, train
from flnet.experiments.vertical import message_bytes

TRAIN = 455
EPOCHS, BATCH = 20, 32
MESH_EPOCHS, PATIENCE_S = 10, 300.0
PHE_BATCHES, PHE_BITS = 10, 2048


def run(options: Options) -> None:
    """The encrypted run, the run in clear text, and ten batches with phe."""
    epochs = 2 if options.quick else EPOCHS
    batch_seconds = 0.0
    for batch in (BATCH, 200):
        mine, plain = (
            json.loads(in_process("encrypted", kind, epochs, batch, patience=900)) for kind in ("ckks", "plain")
        )
        words = f"breast cancer, {epochs} epochs, batches of {batch}"
        note = (
            f"accuracy {mine['accuracy']:.4f}, in clear text {plain['accuracy']:.4f}; weights differ by at most "
            f"{mine['apart']:.1e}, 5 deviations are {5 * mine['weight_error']:.1e}; keys and masks {mine['start_s']:.2f} s"
        )
        options.report.add(
            Row(f"{words}: all batches", "s", [mine["seconds"]], [plain["seconds"]], "in clear text", note=note)
        )
        options.report.add(Row(f"{words}: a batch", "ms", mine["batch_ms"], plain["batch_ms"], "in clear text"))
        note = ", ".join(f"{name} {1e-3 * size:.0f} kB" for name, size in mine["each"].items())
        options.report.add(
            Row(
                f"{words}: bytes in all",
                "MB",
                [mine["bytes"] / 1e6],
                [plain["bytes"] / 1e6],
                "in clear text",
                note=note,
            )
        )
        options.report.add(Row(f"{words}: memory", "MB", [mine["rss_mb"]], [plain["rss_mb"]], "in clear text"))
        batch_seconds = batch_seconds or median(mine["batch_ms"]) / 1e3
        _over_mesh(options, batch, mine, epochs)
    _phe(options, batch_seconds)


def _over_mesh(options: Options, batch: int, alone: dict[str, Any], epochs: int) -> None:
    """Epochs of a job at three nodes, compared with an epoch in one process."""
    place = options.place(f"encrypted-{batch}")
    with mesh(Ask("TUMOURS", 3, {}, {"BENCH_TUMOURS_BATCH": str(batch)}), place, options.base_port) as nodes:
        nodes.wait_until_ready()
        nodes.train(1, PATIENCE_S)  # with the alignment
        before, count = nodes.cpu_s(), options.times(MESH_EPOCHS)
        nodes.train(count, PATIENCE_S)
        processor = (nodes.cpu_s() - before) / count
        records = [history[-count:] for history in nodes.history()]
    words = f"breast cancer, an epoch over three nodes, batches of {batch}"
    in_one = [alone["seconds"] / epochs]
    wall = [max(record["seconds"]["train"] for record in each) for each in zip(*records, strict=True)]
    sent = [sum(record["bytes"]["sent"] for record in each) / 1e6 for each in zip(*records, strict=True)]
    each_node = ", ".join(f"{median(one['bytes']['sent'] for one in of) / 1e6:.1f}" for of in records)
    options.report.add(Row(words, "s", wall, in_one, "in one process", note=f"processor time {processor:.2f} s"))
    note = f"label, columns and key send {each_node} MB"
    options.report.add(
        Row(f"{words}: bytes", "MB", sent, [alone["bytes"] / epochs / 1e6], "in one process", note=note)
    )


def people() -> tuple[Any, Any, Any]:
    """The columns of A, those of B, and labels of -1 and +1."""
    from sklearn.datasets import load_breast_cancer  # noqa: PLC0415 - it brings SciPy, which takes seconds

    rows, labels = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(rows))
    scaled, _, _ = standardise(rows[order])
    return scaled[:, :10], scaled[:, 10:], signed_labels(labels[order])


def one_run(kind: str, epochs: int, batch: int) -> dict[str, Any]:
    """One run: seconds, bytes by message, accuracy, distance of the weights from the run in clear text, memory."""
    a, b, labels = people()
    plan = RegressionPlan(11, 20, fixed_batches(TRAIN, batch), len(a) - TRAIN, epochs=epochs)
    started = time.process_time()
    keys, open_key = _scheme(kind)
    holders = (
        regression.RegressionLabelHolder(plan, a[:TRAIN], labels[:TRAIN], open_key, a[TRAIN:], labels[TRAIN:]),
        regression.RegressionFeatureHolder(plan, b[:TRAIN], open_key, b[TRAIN:]),
        regression.KeyHolder(plan, keys),
    )
    sizes: dict[str, list[int]] = {}
    ends: list[float] = []

    def observe(sender: Position, to: Position, message: Message) -> None:
        sizes.setdefault(type(message).__name__, []).append(message_bytes(message))
        ends.extend([time.process_time()] if isinstance(message, EncryptedGradients) else [])

    said = regression.run(holders, observe)
    finished = time.process_time()
    theta, rows = holders[2].theta, np.column_stack([np.ones(len(a)), a, b])
    clear = train(rows[:TRAIN], labels[:TRAIN], plan.batches, np.zeros(31), epochs=epochs)
    return {
        "seconds": finished - started,
        "start_s": ends[0] - started,
        "batch_ms": [1e3 * float(each) for each in np.diff(ends)],
        "bytes": sum(map(sum, sizes.values())),
        "each": {name: median(all_sizes) for name, all_sizes in sizes.items()},
        "accuracy": float((np.sign(rows[TRAIN:] @ theta) == labels[TRAIN:]).mean()),
        "apart": float(np.abs(theta - clear).max()),
        "weight_error": plan.weight_error(keys),
        "loss": [each.loss for each in said[Position.KEY] if isinstance(each, LossMeasured)][-1],
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def _scheme(kind: str) -> tuple[SecretScheme, Any]:
    if kind == "plain":
        return PlainScheme(), PlainScheme.open_key
    from flnet.security.ckks import CkksKeys, CkksScheme  # noqa: PLC0415 - only where it is measured

    return CkksKeys(), CkksScheme.open_key


def _phe(options: Options, ours: float) -> None:
    try:
        from phe import paillier, util  # noqa: PLC0415 - never a dependency
    except ImportError:
        options.report.add(Row("a batch with phe", "s", [], note="phe is not installed"))
        return
    a, b, labels = people()
    rows_a = np.column_stack([np.ones(len(a)), a])
    public, secret = paillier.generate_paillier_keypair(n_length=PHE_BITS)
    mask = [public.encrypt(1.0) for _ in range(BATCH)]
    seconds = []
    for number in range(1 if options.quick else PHE_BATCHES):
        part = slice(number * BATCH, (number + 1) * BATCH)
        begun = time.process_time()
        total = paillier_batch(rows_a[part], b[part], labels[part], mask)
        values = np.array([secret.decrypt(each) for each in total])
        seconds.append(time.process_time() - begun)
        expected = np.concatenate([rows_a[part].T @ (-labels[part] / 2), b[part].T @ (-labels[part] / 2)])
        assert np.allclose(values, expected)
    kilobytes = (2 * BATCH + 2 * 20 + 11) * PHE_BITS / 4 / 1e3  # u', w, and totals of B twice
    note = f"{PHE_BITS}-bit keys, {'with' if util.HAVE_GMP else 'without'} gmpy2; {kilobytes:.0f} kB"
    options.report.add(Row(f"batch of {BATCH}: encrypted by CKKS", "s", [ours], seconds, "by phe", note=note))


def paillier_batch(rows_a: Any, rows_b: Any, labels: Any, mask: list[Any]) -> list[Any]:
    """The same steps as those of a batch from weights of 0, each ciphertext that leaves a node re-randomised."""
    residual = [sealed * float(-label / 2) for sealed, label in zip(mask, labels, strict=True)]
    for sealed in residual:
        sealed.obfuscate()
    combined = [sealed + own * 0.0 for sealed, own in zip(residual, mask, strict=True)]
    for sealed in combined:
        sealed.obfuscate()
    totals = []
    for column in np.hstack([rows_b, rows_a]).T:
        total = combined[0] * float(column[0])
        for sealed, value in zip(combined[1:], column[1:], strict=True):
            total = total + sealed * float(value)
        total.obfuscate()
        totals.append(total)
    return totals[rows_b.shape[1] :] + totals[: rows_b.shape[1]]


if __name__ == "__main__":
    print(json.dumps(one_run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))

"""What lossy wire formats do to learning: accuracy of MNIST by round for each of them, side by side."""

from __future__ import annotations

from benchmarks.bounds import BOUNDS
from benchmarks.nodes import Ask, NotDone, known, mesh
from benchmarks.options import Options
from benchmarks.report import Row, columns, spark
from benchmarks.wire import ENCODINGS

TRAINER = "MNIST"
NODES = 4
ROUNDS = 12
PATIENCE_S = 170.0


def run(options: Options) -> None:
    """Every encoding that this version knows, from the same seed; the first one is what others are held to."""
    supported = [encoding for encoding in ENCODINGS if known({"wire": encoding})]
    curves: dict[str, list[float]] = {}
    for encoding in supported or ["default"]:
        try:
            curves[encoding] = curve(options, encoding)
        except NotDone as exc:
            options.report.add(Row(f"{TRAINER}, {encoding}", "", [], note=str(exc)))
    if not curves:
        return
    lowest = min(min(values) for values in curves.values())
    lines = [("encoding", "accuracy by round", "", "first", "last")]
    for encoding, values in curves.items():
        steps = " ".join(f"{value:.3f}" for value in values)
        ends = (f"{values[0]:.4f}", f"{values[-1]:.4f}")
        lines.append((encoding, spark(values, lowest, 1.0), steps, *ends))
    options.report.write(columns(lines))
    first, *others = curves
    for other in others:
        lost = [curves[first][-1] - curves[other][-1]]
        words = f"{TRAINER}, {other}: accuracy lost against {first}"
        options.report.add(Row(words, "", lost, bound=BOUNDS["curves"]))


def curve(options: Options, encoding: str) -> list[float]:
    """Accuracy after each average, the mean of all nodes; every node measures on its own test rows."""
    settings: dict[str, object] = {} if encoding == "default" else {"wire": encoding}
    if options.datasets:
        settings["datasets_path"] = options.datasets
    count = options.nodes or NODES
    ask = Ask(TRAINER, count, settings, {})
    with mesh(ask, options.place(f"curves-{encoding}"), options.base_port) as nodes:
        nodes.wait_until_ready()
        nodes.series(max(3, options.times(ROUNDS)), PATIENCE_S)
        records = nodes.history()
    return [
        sum(record["post_fedavg_accuracy"] or 0.0 for record in together) / count
        for together in zip(*records, strict=True)
    ]

"""Part of the mesh and slow nodes: accuracy, bytes and time of rounds of whole nodes in one process.

The nodes are those of `flnet.simulation`: jobs, membership and codec are the real ones, the clock is a virtual
one, and a softmax regression learns the digits of MNIST (or those of scikit-learn) by numpy. So times are those of
the protocol, whatever the machine.
"""

from __future__ import annotations

from benchmarks.bounds import BOUNDS
from benchmarks.learning_cluster import Digits, LearningCluster, digits
from benchmarks.options import Options
from benchmarks.report import Row, columns, spark
from flnet.rounds.participation import Participation
from flnet.rounds.settings import Rules

NODES, ROUNDS, SLOWER = 8, 20, 10.0
BATCH_S = 0.05  # of virtual time, on a node that is not slow
SECONDS_A_ROUND = 47.0  # of virtual time that a round takes which waits for the slow node


def run(options: Options) -> None:
    """All comparisons, each with the same mesh without the feature that is measured."""
    data = digits(options.datasets, options.place("uneven"))
    rounds = max(4, options.times(ROUNDS))
    part_of_the_mesh(options, data, rounds)
    slow_node(options, data, rounds)
    without_rounds(options, data, rounds)


def part_of_the_mesh(options: Options, data: Digits, rounds: int) -> None:
    """C = 0.5 for one and a half times as many rounds, compared with C = 1."""
    whole = LearningCluster(NODES, data, BATCH_S).run(rounds)
    half = LearningCluster(NODES, data, BATCH_S, rules=Rules(Participation(0.5))).run(rounds * 3 // 2)
    lines = [("nodes that train", "accuracy by round", "", "last", "MB a round", "MB in all")]
    lowest = min(*whole.accuracies, *half.accuracies)
    for name, course in (("all 8", whole), ("4 of 8", half)):
        each = course.bytes / len(course.accuracies) / 1e6
        steps = " ".join(f"{value:.3f}" for value in course.accuracies)
        last, total = f"{course.accuracies[-1]:.4f}", f"{course.bytes / 1e6:.2f}"
        lines.append((name, spark(course.accuracies, lowest, 1.0), steps, last, f"{each:.2f}", total))
    options.report.write(columns(lines))
    lost = [whole.accuracies[-1] - half.accuracies[-1]]
    options.report.add(Row("C = 0.5, 1.5 x the rounds: accuracy lost", "", lost, bound=BOUNDS["uneven.accuracy"]))
    bytes_a_round = [course.bytes / len(course.accuracies) / 1e6 for course in (half, whole)]
    bound = BOUNDS["uneven.bytes"]
    options.report.add(Row("C = 0.5: a round", "MB", bytes_a_round[:1], bytes_a_round[1:], "C = 1", bound))


def slow_node(options: Options, data: Digits, rounds: int) -> None:
    """One node ten times slower, with its training bounded by time, compared with the mesh without it."""
    without = LearningCluster(NODES, data, BATCH_S, left_out=1).run(rounds)
    limit = without.training_s
    late = Rules(staleness=rounds)
    ways = (("as it is", None, None), (f"for at most {limit:g} s", limit, None), ("over rounds", None, late))
    for words, seconds, rules in ways:
        slow = LearningCluster(NODES, data, BATCH_S, slow={NODES - 1: SLOWER}, limit=seconds, rules=rules)
        course = slow.run(rounds)
        name = f"one node {SLOWER:g} x slower, trains {words}: {rounds} rounds"
        note = (
            f"accuracy {course.accuracies[-1]:.4f}, without it {without.accuracies[-1]:.4f}; its updates counted"
        )
        note += f" in {course.counted[-1]} rounds, with {course.examples[-1]} examples in the last"
        bound = BOUNDS["uneven.time"] if seconds or rules else None
        options.report.add(Row(name, "s", [course.seconds], [without.seconds], "without it", bound, note))


def without_rounds(options: Options, data: Digits, rounds: int) -> None:
    """The same slow node in an asynchronous mesh, compared with rounds that wait for it: accuracy over time."""
    seconds, every = max(4, rounds // 4) * SECONDS_A_ROUND, SECONDS_A_ROUND
    ways = (("in rounds", None), ("asynchronous", Rules(asynchronous=True)))
    meshes = {words: LearningCluster(NODES, data, BATCH_S, slow={NODES - 1: SLOWER}, rules=r) for words, r in ways}
    courses = {words: mesh.over_time(seconds, every) for words, mesh in meshes.items()}
    lowest = min(map(min, courses.values()))
    lines = [("one node 10 x slower", f"mean accuracy every {every:g} s", "", "last")]
    for words, accuracies in courses.items():
        steps = " ".join(f"{value:.3f}" for value in accuracies)
        lines.append((words, spark(accuracies, lowest, 1.0), steps, f"{accuracies[-1]:.4f}"))
    options.report.write(columns(lines))
    goal = courses["in rounds"][-1]
    taken = {
        words: every * (1 + sum(value < goal for value in accuracies)) for words, accuracies in courses.items()
    }
    alone = meshes["asynchronous"]
    slow = list(alone.nodes)[-1]
    merges = [record for node in alone.nodes.values() for record in node.job.records() if node.id != slow]
    counted = sum(slow in record["contributors"] for record in merges)
    note = f"its models went into {counted} of {len(merges)} versions of others"
    name = f"asynchronous: until the accuracy that rounds reach in {seconds:g} s ({goal:.4f})"
    options.report.add(Row(name, "s", [taken["asynchronous"]], [taken["in rounds"]], "in rounds", None, note))

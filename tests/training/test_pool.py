"""The lane over both backends: what it promises is the same, whether a child works or a thread."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import numpy as np
import pytest

from flnet.errors import DataMissing, ParamsRefused, SettingsError, TrainerError
from flnet.messages import HyperParams
from flnet.params import TrainerId
from flnet.settings import Settings
from flnet.training.pool import make_pool
from flnet.training.processors import processors
from tests.helpers import HYPER, params
from tests.training.bench import ENDLESS, START, TINY, eventually, plugin
from tests.training.conftest import MakeBench


async def test_a_trainer_is_prepared_trained_and_measured(compute: str, bench: MakeBench) -> None:
    pool = bench(compute).pool
    declaration, start = await pool.prepare(TINY)
    assert (declaration.label, declaration.defaults) == ("Points of a plane", HyperParams(e=5, u=0.5, b=100))
    assert (declaration.shared, declaration.exchange_threshold) == (("w", "b"), 0.02)
    assert declaration.data == {
        "source": "made-up points",
        "rows": {"train": 100, "test": 100},
        "classes": ["below", "above"],
        "sample": True,
        "note": "",
    }
    fit, score = await pool.fit(TINY, start, declaration.defaults, seed=1)
    assert fit.examples == 100
    assert fit.params["w"].dtype == start["w"].dtype
    assert score.accuracy > 0.9
    assert await pool.evaluate(TINY, start.merged_with(fit.params)) == score


async def test_both_backends_learn_the_same_bytes(bench: MakeBench) -> None:
    learnt = []
    for compute in ("process", "thread"):
        pool = bench(compute).pool
        declaration, start = await pool.prepare(TINY)
        fit, _ = await pool.fit(TINY, start, declaration.defaults, seed=1)
        learnt.append({name: value.tobytes() for name, value in fit.params.items()})
    assert learnt[0] == learnt[1]


async def test_a_trainer_is_told_about_the_node_and_has_a_folder(
    compute: str, bench: MakeBench, folder: Path
) -> None:
    write = """(self.settings.state_path / "told").write_text(
            f"{self.settings.shard} {self.settings.seed} {self.settings.threads} {self.settings.datasets_path}")"""
    name = plugin(folder, "CURIOUS", evaluate=write)
    for threads, told in ((2, 2), (0, processors())):
        pool = bench(compute, data_shard="2/3", seed=7, compute_threads=threads, datasets_path=folder).pool
        await pool.evaluate(name, START)
        assert (folder / "state/trainers/CURIOUS/told").read_text() == f"(2, 3) 7 {told} {folder}"


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        ("raise ValueError('boom')", r"trainer ODD failed in fit: ValueError: boom \(ODD.py, line 12\)"),
        ("sys.exit(3)", "trainer ODD failed in fit: SystemExit: 3"),
        ("task.params['w'][0] = 1", "read-only"),
        ("return 5", "fit of trainer ODD gave a int; expected a Fit"),
        (
            "return Fit({'w': np.array([np.nan, 1], np.float32), 'steps': task.params['steps']}, 1)",
            "training diverged: 'w' has numbers that are not finite; try a smaller learning rate",
        ),
        ("raise DataMissing('no rows', 'bring some')", "no rows; bring some"),
    ],
)
async def test_a_failing_fit_ends_in_words_and_the_lane_goes_on(
    compute: str, bench: MakeBench, folder: Path, fit: str, words: str
) -> None:
    name = plugin(folder, "ODD", fit=fit)
    pool = bench(compute).pool
    with pytest.raises(TrainerError, match=words) as caught:
        await pool.fit(name, START, HYPER, seed=1)
    assert isinstance(caught.value, DataMissing) == ("DataMissing" in fit)
    assert (await pool.evaluate(name, START)).examples == 4


async def test_a_trainer_without_data_says_so_and_is_tried_again(
    compute: str, bench: MakeBench, folder: Path
) -> None:
    make = "if not (settings.state_path / 'rows').exists(): raise DataMissing('no rows', 'bring some')"
    name = plugin(folder, "LATE", make=make)
    pool = bench(compute).pool
    with pytest.raises(DataMissing) as caught:
        await pool.prepare(name)
    assert (caught.value.missing, caught.value.remedy) == ("no rows", "bring some")
    (folder / "state/trainers/LATE/rows").touch()
    assert (await pool.prepare(name))[0].label == "LATE"


async def test_unknown_and_broken_trainers_are_refused_in_words(
    compute: str, bench: MakeBench, folder: Path
) -> None:
    (folder / "TYPO.py").write_text("def make_trainer(settings:\n")
    (folder / "LOST.py").write_text("import a_module_that_is_not_there\n")
    (folder / "EMPTY.py").write_text("")
    pool = bench(compute).pool
    for name, words in {
        "NOBODY": "this node has no trainer 'NOBODY'; it has",
        "TYPO": "TYPO.py, line 1: SyntaxError",
        "LOST": r"ModuleNotFoundError: No module named 'a_module_that_is_not_there' \(LOST.py, line 1\); it has",
        "EMPTY": r"EMPTY.py defines no function make_trainer\(settings\)",
    }.items():
        with pytest.raises(TrainerError, match=words):
            await pool.prepare(TrainerId(name))


async def test_a_printing_trainer_spoils_nothing(compute: str, bench: MakeBench, folder: Path) -> None:
    name = plugin(folder, "LOUD", fit="print('x' * 100_000); os.write(1, b'y' * 100_000)")
    fit, _ = await bench(compute).pool.fit(name, START, HYPER, seed=1)
    assert fit.params == START


async def test_progress_is_told_in_the_loop_and_not_at_every_batch(
    compute: str, bench: MakeBench, folder: Path
) -> None:
    name = plugin(folder, "QUICK", fit="for i in range(5000): task.progress(i + 1, 5000)")
    one = bench(compute)
    await one.fitting(name)
    assert one.progress[0] == ("QUICK", 1, 5000)
    assert one.progress[-1] == ("QUICK", 5000, 5000)
    assert len(one.progress) < 500


async def test_a_cancelled_training_ends_and_only_it(compute: str, bench: MakeBench, folder: Path) -> None:
    name = plugin(folder, "ENDLESS", fit=ENDLESS)
    one = bench(compute)
    running, waiting, other = one.fitting(name), one.fitting(name), one.fitting(TINY, w=[0, 0], b=[0])
    await one.until_it_trains()
    one.pool.cancel(name)
    with pytest.raises(TrainerError, match="the training of ENDLESS was cancelled"):
        await running
    with pytest.raises(TrainerError, match="cancelled before it began"):
        await waiting
    await other
    again = one.fitting(name)
    await one.until_it_trains(len(one.progress) + 1)
    assert not again.done()


async def test_a_training_that_nobody_waits_for_any_more_is_cancelled(
    compute: str, bench: MakeBench, folder: Path
) -> None:
    name = plugin(folder, "ENDLESS", fit=ENDLESS)
    one = bench(compute)
    running = one.fitting(name)
    await one.until_it_trains()
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()
    assert (await one.pool.evaluate(name, START)).accuracy == 0.5


async def test_a_training_cancelled_while_its_trainer_loads_does_not_begin(
    compute: str, bench: MakeBench, folder: Path
) -> None:
    make = """
    (settings.state_path / "loading").touch()
    while not (settings.state_path / "go").exists():
        time.sleep(0.005)
"""
    name = plugin(folder, "SLOW", make=make, fit="(self.settings.state_path / 'trained').touch()")
    one, state = bench(compute), folder / "state/trainers/SLOW"
    running = one.fitting(name)
    await eventually((state / "loading").exists)
    one.pool.cancel(name)
    if compute == "process":  # the cancel takes its own way to the child
        await asyncio.sleep(0.1)
    (state / "go").touch()
    with pytest.raises(TrainerError, match="cancelled"):
        await running
    if compute == "thread":
        assert not (state / "trained").exists()


async def test_a_trainer_cannot_swallow_its_cancellation(bench: MakeBench, folder: Path) -> None:
    fit = """
        while True:
            try:
                task.progress(1, 2)
            except Exception:
                pass
"""
    name = plugin(folder, "DEAF", fit=fit)
    one = bench("thread")
    running = one.fitting(name)
    await one.until_it_trains()
    one.pool.cancel(name)
    with pytest.raises(TrainerError, match="cancelled"):
        await running


async def test_closing_ends_all_that_runs_or_waits(compute: str, bench: MakeBench, folder: Path) -> None:
    name = plugin(folder, "ENDLESS", fit=ENDLESS)
    one = bench(compute)
    calls = [one.fitting(name), one.fitting(TINY, w=[0, 0], b=[0])]
    await one.until_it_trains()
    await one.pool.close()
    for call in calls:
        with pytest.raises(TrainerError, match="the node is stopping"):
            await call
    with pytest.raises(TrainerError, match="the node is stopping"):
        await one.pool.evaluate(TINY, START)
    await one.pool.close()


async def test_functions_run_in_the_lane_one_after_the_other(bench: MakeBench) -> None:
    pool, seen = bench("process").pool, list[int]()

    def work(number: int) -> int:
        seen.append(number)
        return number * number

    assert await asyncio.gather(*(pool.run(lambda n=n: work(n)) for n in range(20))) == [  # type: ignore[misc]
        n * n for n in range(20)
    ]
    assert seen == list(range(20))


async def test_what_a_function_raises_comes_as_a_trainer_error(bench: MakeBench) -> None:
    pool = bench("process").pool

    def refuse() -> None:
        raise ParamsRefused("'w' has shape [3]")

    def fail() -> None:
        raise ZeroDivisionError("by nought")

    with pytest.raises(TrainerError, match="'w' has shape") as caught:
        await pool.run(refuse)
    assert isinstance(caught.value.__cause__, ParamsRefused)
    with pytest.raises(TrainerError, match="the work failed: ZeroDivisionError: by nought"):
        await pool.run(fail)


async def test_arrays_of_every_kind_survive_the_way_to_the_child(bench: MakeBench, folder: Path) -> None:
    name = plugin(folder, "ECHO")
    start = params(
        scalar=np.float32(3),
        half=np.ones((2, 2), np.float16),
        double=np.arange(6.0).reshape(2, 3).T,
        count=np.array([2**62]),
        mask=np.array([True, False]),
        empty=np.zeros((0, 4), np.float32),
        big_endian=np.array([1.5], ">f4"),
    )
    fit, _ = await bench("process").pool.fit(name, start, HYPER, seed=1)
    assert fit.params == start


def test_the_thread_lane_keeps_the_interpreter_responsive(bench: MakeBench) -> None:
    bench("thread")
    assert sys.getswitchinterval() < 0.005


async def test_partition_and_device_are_told_to_the_trainer(bench: MakeBench, compute: str, folder: Path) -> None:
    told = 'raise TrainerError(f"told {settings.partition} on {settings.device}")'
    trainer = plugin(folder, "TOLD", make=told)
    pool = bench(compute, data_partition="dirichlet:0.3", device="cpu").pool
    with pytest.raises(TrainerError, match=r"told dirichlet:0.3 on cpu"):
        await pool.prepare(trainer)


@pytest.mark.parametrize("partition", ["dirichlet:0", "pathological:1.5"])
def test_a_partition_out_of_range_is_said_at_the_start(partition: str) -> None:
    with pytest.raises(SettingsError, match=f"FLNET_DATA_PARTITION={partition}: .* takes a"):
        make_pool(Settings(data_partition=partition))

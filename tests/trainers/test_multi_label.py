"""MLFedAvg's trainer: shared core and private head, its rows and labels dealt as the thesis deals them."""

# ruff: noqa: E402

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from flnet.compute.assignment import Assignment
from flnet.compute.checks import checked_fit, checked_params, checked_score, declared
from flnet.compute.in_process import InProcessBackend
from flnet.compute.loader import find_trainers
from flnet.compute.prediction import predicted, read_inputs
from flnet.compute.verbs import ExportRequest, PredictRequest, PrepareRequest
from flnet.datasets.arff import arff_cells
from flnet.datasets.dataset_import import bring_to, place_of
from flnet.errors import DataMissing, DataThere, TrainerError
from flnet.params.arithmetic import weighted_mean
from flnet.params.params import Params, Schema
from flnet.settings import load_settings
from flnet.trainer import (
    Array,
    Fit,
    Partition,
    Score,
    Task,
    Trainer,
    TrainerFile,
    TrainerSettings,
)
from trainers._multi_label import dealt_rows, load_node_data, node_label_numbers, noise
from trainers._multi_label_options import Options, find, read_options
from trainers.MULTI_LABEL import (
    CORE,
    SEVERAL,
    MultiLabelNet,
    make_trainer,
)

LABELS = ("a", "b", "c", "d", "e", "f")


def write_data(folder: Path, rows: int = 600, seed: int = 0, options: str = "") -> Path:
    """Six labels that a few features tell, as ml_scene.npz, with a few rows that have none."""
    chance = np.random.default_rng(seed)
    y = (chance.random((rows, 6)) < 0.25).astype(np.uint8)
    x = (y @ chance.normal(size=(6, 20)) + 0.1 * chance.normal(size=(rows, 20))).astype(np.float32)
    np.savez(folder / "ml_scene.npz", X=x, Y=y, label_names=LABELS)
    if options:
        (folder / "multi_label.toml").write_text(options, "utf-8")
    return folder


def node(folder: Path, part: int = 1, count: int = 2, seed: int = 0) -> TrainerSettings:
    state = folder / f"state-{part}"
    state.mkdir(exist_ok=True)
    return TrainerSettings(folder, state, (part, count), seed)


def trained(trainer: Trainer, params: Params, epochs: int = 1, seed: int = 1) -> Params:
    hyper = trainer.defaults.model_copy(update={"e": epochs, "u": 0.005})
    return Params(checked_fit(trainer.fit(Task(params, hyper, seed)), params, "T").params)


def start(trainer: Trainer, seed: int = 0) -> Params:
    return checked_params(trainer.initial_params(seed), "T")


def test_the_core_is_shared_and_equal_and_the_head_is_private_and_as_wide_as_the_nodes_labels(
    tmp_path: Path,
) -> None:
    write_data(tmp_path, options="deal = [4, 2]")
    one, other = (make_trainer(node(tmp_path, part)) for part in (1, 2))
    mine, theirs = start(one), start(other)
    assert declared(one, "T", mine).shared == CORE
    assert {n: mine[n].shape for n in CORE} == {
        "core.0.weight": (100, 20), "core.0.bias": (100,), "core.1.weight": (20, 100), "core.1.bias": (20,)
    }  # fmt: skip
    assert all((mine[name] == theirs[name]).all() for name in CORE)
    assert (mine["head.weight"].shape, theirs["head.weight"].shape) == ((4, 20), (2, 20))
    # Equal beginnings of private heads would pull the core to one place for different labels.
    assert not np.isin(theirs["head.weight"], mine["head.weight"]).any()
    assert all((start(one)[name] == mine[name]).all() for name in mine)
    assert set(one.data_info().classes) | set(other.data_info().classes) == set(LABELS)


def test_a_fit_states_rows_of_training_and_validation_and_the_labels(tmp_path: Path) -> None:
    trainer = make_trainer(node(write_data(tmp_path)))
    params = start(trainer)
    before = {name: value.copy() for name, value in params.items()}
    told: list[tuple[int, int]] = []
    fit = trainer.fit(Task(params, trainer.defaults, 1, lambda *progress: told.append(progress)))
    rows = trainer.data_info().rows
    assert fit.examples == rows["train"] + rows["validation"]
    assert fit.labels == 3
    assert told[-1] == (-(-rows["train"] // 30),) * 2
    assert set(fit.params) == set(params)
    assert all((params[name] == before[name]).all() for name in params)
    assert set(fit.metrics) == {"loss", "validation_loss", "validation_accuracy", "validation_f1_macro"}
    again = trainer.fit(Task(params, trainer.defaults, 1))
    assert all((fit.params[name] == again.params[name]).all() for name in params)  # equal seeds, equal fits


def test_training_learns_and_is_measured_on_the_own_and_the_common_test(tmp_path: Path) -> None:
    trainer = make_trainer(node(write_data(tmp_path)))
    params = start(trainer)
    before, after = measured(trainer, params), measured(trainer, trained(trainer, params, epochs=40))
    assert after.accuracy > max(0.8, before.accuracy)
    assert after.accuracy == after.metrics["argmax_accuracy"]
    assert after.examples == trainer.data_info().rows["test"]
    names = {"argmax_accuracy", "subset_accuracy", "f1_macro", "f1_micro", "hamming_loss"}
    names |= {"average_precision", "ranking_loss", "coverage", "one_error"}
    assert set(after.metrics) == names | {f"global_{name}" for name in names}
    assert after.metrics["global_f1_macro"] > max(0.8, before.metrics["global_f1_macro"])


def measured(trainer: Trainer, params: Params) -> Score:
    return checked_score(trainer.evaluate(params), "T")


@pytest.mark.parametrize("sizes", [[3, 3], [2, 2, 1, 1]])
def test_nodes_with_other_labels_learn_one_core_together(tmp_path: Path, sizes: list[int]) -> None:
    write_data(tmp_path, rows=900, options=f"deal = {sizes}")
    nodes = [make_trainer(node(tmp_path, i + 1, len(sizes))) for i in range(len(sizes))]
    held = [start(trainer) for trainer in nodes]
    for _ in range(20):
        held = [trained(trainer, params) for trainer, params in zip(nodes, held, strict=True)]
        core = weighted_mean([(params.select(CORE), 1.0) for params in held], {})
        held = [Params({**params, **core}) for params in held]
    scores = [
        measured(trainer, params).metrics["global_f1_macro"] for trainer, params in zip(nodes, held, strict=True)
    ]
    assert np.mean(scores) > 0.8
    assert len({Schema.of(params.select(CORE)) == Schema.of(held[0].select(CORE)) for params in held}) == 1


def test_rows_are_dealt_as_in_the_thesis() -> None:
    own = [dealt_rows(100, (part, 4), 0.1, seed=3)[0] for part in (1, 2, 3, 4)]
    common = dealt_rows(100, (1, 4), 0.1, seed=3)[1]
    assert [len(rows) for rows in own] == [22, 22, 22, 24]  # floor(90 / 4), the last one the remainder
    assert len(common) == 10
    assert sorted(np.concatenate([*own, common]).tolist()) == list(range(100))


def test_a_node_keeps_the_rows_that_have_one_of_its_labels(tmp_path: Path) -> None:
    write_data(tmp_path, options='node_labels = [["f", "b"], ["a"]]')
    data = load_node_data(node(tmp_path))
    assert data.info.classes == ("b", "f")  # in the order of the data set
    assert all(side.y.any(axis=1).all() for side in (*data.sides.values(), data.common))
    rows = data.info.rows
    total = rows["train"] + rows["validation"] + rows["test"]
    assert [round(rows[side] / total, 1) for side in ("train", "validation", "test")] == [0.6, 0.2, 0.2]
    assert rows["global_test"] == len(data.common.y)
    assert "2 of 6 labels" in data.info.note


def test_nodes_must_agree_on_columns_and_dealing_but_not_on_labels(tmp_path: Path) -> None:
    write_data(tmp_path)
    one, other = (make_trainer(node(tmp_path, part)) for part in (1, 2))
    assert one.agreement == other.agreement
    assert set(one.agreement) == {"features", "dealing"}
    fresh = [tmp_path / name for name in ("x", "y")]
    for folder in fresh:
        folder.mkdir()
        write_data(folder)
    assert make_trainer(node(fresh[0], seed=1)).agreement["dealing"] != one.agreement["dealing"]
    assert make_trainer(node(fresh[1], 1, 1)).agreement == {"features": one.agreement["features"]}


def contents(x: Array) -> set[bytes]:
    return {row.tobytes() for row in x}


def test_no_row_is_on_two_sides_or_two_nodes_also_after_a_restart(tmp_path: Path) -> None:
    write_data(tmp_path)
    nodes = [load_node_data(node(tmp_path, part, 3)) for part in (1, 2, 3)]
    sides = [contents(side.x) for data in nodes for side in data.sides.values()]
    common: set[bytes] = set().union(*(contents(data.common.x) for data in nodes))
    assert len(set().union(*sides)) == sum(map(len, sides))
    assert not common & set().union(*sides)
    again = load_node_data(node(tmp_path, 1, 3))
    assert all((again.sides[name].x == side.x).all() for name, side in nodes[0].sides.items())


def test_another_global_test_than_that_of_the_first_start_is_refused(tmp_path: Path) -> None:
    write_data(tmp_path)
    load_node_data(node(tmp_path))
    with pytest.raises(TrainerError, match="it would hold rows that were trained on"):
        load_node_data(node(tmp_path, seed=5))
    load_node_data(node(tmp_path))
    (tmp_path / "state-1" / "global-ml_scene.json").write_text("{", "utf-8")
    with pytest.raises(TrainerError, match=r"global-ml_scene.json cannot be kept"):
        load_node_data(node(tmp_path))


def test_a_node_with_its_own_file_has_all_labels_and_no_global_test(tmp_path: Path) -> None:
    data = load_node_data(node(write_data(tmp_path), 1, 1))
    assert data.info.classes == LABELS
    assert "global_test" not in data.info.rows
    write_data(tmp_path, rows=700)  # more rows than at the first start are no fault here
    assert sum(load_node_data(node(tmp_path, 1, 1)).info.rows.values()) > sum(data.info.rows.values())


def test_noise_is_added_to_the_own_rows_only_and_only_when_asked(tmp_path: Path) -> None:
    write_data(tmp_path)
    plain = load_node_data(node(tmp_path))
    (tmp_path / "multi_label.toml").write_text('noise = "half-normal"', "utf-8")
    noisy = load_node_data(node(tmp_path))
    added = noisy.sides["train"].x - plain.sides["train"].x
    assert added.min() > -1e-6 < added.max()
    assert (noisy.common.x == plain.common.x).all()
    assert "half-normal noise" in noisy.info.note


@pytest.mark.parametrize(("kind", "mean"), [("normal", 0.0), ("half-normal", (2 / np.pi) ** 0.5)])
def test_noise_has_a_deviation_of_its_own_per_node(kind: str, mean: float) -> None:
    drawn = [noise((200, 100), kind, seed=1, part=part) for part in range(1, 21)]
    sigmas = [float(np.sqrt((added**2).mean())) for added in drawn]
    assert 0 <= min(sigmas) < 0.15 < 0.35 < max(sigmas) <= 0.51
    for added, sigma in zip(drawn, sigmas, strict=True):
        assert added.mean() == pytest.approx(mean * sigma, abs=0.02)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("fiel = 'x'", "fiel is no option; expected file, labels_xml"),
        ("file = 3", "file = 3; expected the name of a file"),
        ("deal = [3, 0]", r"deal = \[3, 0\]; expected how many labels each node gets"),
        ("noise = 'loud'", "noise = 'loud'; expected none or normal or half-normal"),
        ("seed = -1", "expected a whole number from 0"),
        ("seed = true", "expected a whole number"),
        ("on_bad_rows = 'guess'", "expected stop or skip"),
        ("global_test = 1.0", "expected a share from 0 to below 1"),
        ("label_columns = true", "label_columns = True; expected names, the beginning of names, or a number"),
        ("standardise = 1", "expected true or false"),
        ("scale = {a = [0, 0]}", "expected for each column a mean and a standard deviation above 0"),
        ("scale = {a = [nan, 1]}", "expected for each column"),
        ("split = [60, 40]", "expected three shares above 0"),
        ("node_labels = [['a', 'a'], ['b']]", "gives a label to one node twice"),
        ("node_labels = [['a'], []]", "expected a list of names for each node"),
        ("node_labels = [['a'], ['b']]\ndeal = [1, 1]", "two ways to say the same"),
        ("deal = [", "cannot be read"),
    ],
)
def test_wrong_options_are_refused_in_words(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "multi_label.toml").write_text(text, "utf-8")
    with pytest.raises(TrainerError, match=fault):
        read_options(tmp_path / "multi_label.toml")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("deal = [2, 2, 2]", "deal is for 3 nodes; expected as many as FLNET_DATA_SHARD=1/2 has parts"),
        ("deal = [2, 2]", "does not deal 6 labels"),
        ("node_labels = [['x'], ['a']]", "no label x; the data have a, b, c, d, e, f"),
    ],
)
def test_options_that_do_not_fit_the_data_are_refused(tmp_path: Path, text: str, fault: str) -> None:
    write_data(tmp_path, options=text)
    with pytest.raises(TrainerError, match=fault):
        load_node_data(node(tmp_path))


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="FLNET_DATASETS_PATH is not set"):
        find(None)
    with pytest.raises(DataMissing, match="no multi-label data set was found in"):
        find(tmp_path)
    (tmp_path / "multi_label.toml").write_text('file = "scene.arff"', "utf-8")
    with pytest.raises(DataMissing, match=r"names scene.arff, but .* is not there"):
        find(tmp_path)
    (tmp_path / "multi_label.toml").write_text("", "utf-8")
    write_data(tmp_path, rows=12)
    with pytest.raises(DataMissing, match=r"no row of this node|too few rows for this node"):
        load_node_data(node(tmp_path, 1, 6))
    with pytest.raises(TrainerError, match="6 labels cannot be dealt to 7 nodes"):
        load_node_data(node(tmp_path, 1, 7))


def test_an_arff_file_named_in_the_options_is_read_with_its_columns(tmp_path: Path) -> None:
    rows = "\n".join(f"{i % 7},{i % 5},{i % 2},{(i + 1) % 2}" for i in range(100))
    columns = "@attribute x1 numeric\n@attribute x2 numeric\n@attribute l1 {0,1}\n@attribute l2 {0,1}"
    (tmp_path / "t.arff").write_text(f"@relation t\n{columns}\n@data\n{rows}\n?,0,1,1\n", "utf-8")
    lines = 'file = "t.arff"\nlabel_columns = ["l1", "l2"]\n'
    (tmp_path / "multi_label.toml").write_text(lines, "utf-8")
    with pytest.raises(TrainerError, match="line 107: 'x1' has no value"):
        load_node_data(node(tmp_path))
    (tmp_path / "multi_label.toml").write_text(lines + 'on_bad_rows = "skip"', "utf-8")
    data = load_node_data(node(tmp_path))
    assert "skipped rows: 1; " in data.info.note
    assert data.sides["train"].x.shape[1] == 2


FIELD = """@relation mushrooms
@attribute who string
@attribute height numeric
@attribute cap {bell,conical,'flat, or so'}
@attribute weight numeric
@attribute l1 {0,1}
@attribute l2 {0,1}
@data
"""
FIELD_OPTIONS = 'file = "t.arff"\nlabel_columns = -2\nignore_columns = ["who"]\n'


def write_field(folder: Path, options: str = "", rows: int = 120) -> Path:
    """Sparse rows with a nominal attribute: the first label is told by height, the other one by the cap."""
    lines = []
    for i in range(rows):
        cap, height = i % 3, 80 + 20 * ((7 * i) % 11 - 5)
        cells = [
            f"0 'n {i}'",
            f"1 {height}",
            *([f"2 {('', 'conical', chr(39) + 'flat, or so' + chr(39))[cap]}"] * (cap > 0)),
        ]
        cells += [f"3 {5000 + i}", *(["4 1"] * (height > 80)), *(["5 1"] * (cap == 0 or height <= 80))]
        lines.append("{" + ", ".join(cells) + "}")
    (folder / "t.arff").write_text(FIELD + "\n".join(lines) + "\n", "utf-8")
    (folder / "multi_label.toml").write_text(FIELD_OPTIONS + options, "utf-8")
    return folder


def test_the_last_columns_are_labels_where_their_number_is_below_zero(tmp_path: Path) -> None:
    data = load_node_data(node(write_field(tmp_path), 1, 1))
    assert data.info.classes == ("l1", "l2")
    assert data.features == ("height", "cap=bell", "cap=conical", "cap=flat, or so", "weight")


def test_features_are_standardised_by_the_own_training_rows_if_asked(tmp_path: Path) -> None:
    plain = load_node_data(node(write_field(tmp_path), 1, 1))
    assert plain.scales is None
    data = load_node_data(node(write_field(tmp_path, "standardise = true\n"), 1, 1))
    train, raw = data.sides["train"].x, plain.sides["train"].x
    numeric = [0, 4]
    assert np.allclose(train[:, numeric].mean(axis=0), 0, atol=1e-5)
    assert np.allclose(train[:, numeric].std(axis=0), 1, atol=1e-5)
    assert np.array_equal(train[:, 1:4], raw[:, 1:4])  # values of a nominal attribute stay 0 and 1
    mean, spread = raw.mean(axis=0, dtype=np.float64), raw.std(axis=0, dtype=np.float64)
    test, raw_test = data.sides["test"].x[:, numeric], plain.sides["test"].x[:, numeric]
    assert np.allclose(test, (raw_test - mean[numeric]) / spread[numeric], atol=1e-5)
    assert data.info.checksum == plain.info.checksum  # of the rows as they are in the file
    assert data.agreement == {**plain.agreement, "standardise": "true"}


def test_agreed_scales_go_before_the_own_ones_and_must_be_equal(tmp_path: Path) -> None:
    agreed = "[scale]\nweight = [5000, 50]\n"
    data = load_node_data(node(write_field(tmp_path, agreed), 1, 1))
    assert data.scales is not None
    assert data.scales.tolist() == [[0, 1], [0, 1], [0, 1], [0, 1], [5000, 50]]
    assert data.agreement["scale"] == "weight [5000 50]"
    spec = make_trainer(node(tmp_path, 1, 1)).input_spec()
    assert spec is not None
    assert (spec.scale[4], spec.scale_is_own) == ((5000, 50), False)
    both = load_node_data(node(write_field(tmp_path, "standardise = true\n" + agreed), 1, 1))
    assert both.scales is not None
    assert both.scales[4].tolist() == [5000, 50]
    assert both.scales[0, 1] != 1
    assert both.agreement == {**data.agreement, "standardise": "true"}
    for wrong in ("who", "l1", "cap", "cap=bell", "weigth"):
        with pytest.raises(TrainerError, match=f"scale names '{wrong}', which is no numeric feature"):
            load_node_data(node(write_field(tmp_path, f'[scale]\n"{wrong}" = [0, 1]\n'), 1, 1))


def test_a_feature_that_never_changes_is_not_divided_by_zero(tmp_path: Path) -> None:
    path = write_field(tmp_path, "standardise = true\n") / "t.arff"
    path.write_text(re.sub(r"3 5\d+", "3 5000", path.read_text("utf-8")), "utf-8")
    assert not load_node_data(node(tmp_path, 1, 1)).sides["train"].x[:, 4].any()


def test_rows_are_predicted_and_exported_as_they_are_in_the_file(tmp_path: Path) -> None:
    trainer = make_trainer(node(write_field(tmp_path, "standardise = true\n"), 1, 1))
    params, spec = trained(trainer, start(trainer), epochs=60), trainer.input_spec()
    assert spec is not None
    assert spec.ignored == ("l1", "l2", "who")
    assert spec.scale_is_own
    assert spec.scale[1] == (0, 1)
    assert spec.scale[4][0] > 5000
    with (tmp_path / "t.arff").open() as file:
        rows = [cells for _, cells in arff_cells(tmp_path / "t.arff", file)]
    typed = [{**row, "height": float(row["height"]), "weight": float(row["weight"])} for row in rows]
    inputs = read_inputs(typed, spec)
    found = trainer.predict(params, inputs)
    truth = np.array([[row["l1"] == "1", row["l2"] == "1"] for row in rows])
    assert ((found.values > 0.5) == truth).mean() > 0.9
    own_rows = trainer.inputs()
    assert own_rows is not None
    own = set(map(tuple, np.rint(own_rows).tolist()))
    assert own <= set(map(tuple, inputs.tolist()))  # those of the trainer are as people have them, too
    assert np.allclose(run_onnx(trainer, params, inputs), found.values, atol=1e-4)


def run_onnx(trainer: Trainer, params: Params, inputs: Array) -> Array:
    onnxruntime = pytest.importorskip("onnxruntime")
    (values,) = onnxruntime.InferenceSession(trainer.onnx(params)).run(None, {"inputs": inputs})
    return np.asarray(values)


def test_the_defaults_are_the_options_of_an_absent_file(tmp_path: Path) -> None:
    options: Any = read_options(tmp_path / "multi_label.toml")
    assert options == Options()
    assert (options.noise, options.split, options.on_bad_rows) == ("none", [60, 20, 20], "stop")


def test_another_partition_than_its_own_is_refused(tmp_path: Path) -> None:
    told = TrainerSettings(tmp_path, tmp_path, partition=Partition.parse("dirichlet:0.3"))
    with pytest.raises(TrainerError, match=r"MULTI_LABEL deals rows and labels by multi_label.toml"):
        load_node_data(told)


def test_the_same_labels_in_the_order_of_the_file_or_in_a_drawn_one() -> None:
    options, labels = Options(deal=[4, 2]), tuple("abcdef")
    drawn = [node_label_numbers(replace(options, label_order="drawn"), labels, (1, 2), seed) for seed in range(8)]
    ascending = [node_label_numbers(options, labels, (1, 2), seed) for seed in range(8)]
    assert [sorted(numbers) for numbers in drawn] == [numbers.tolist() for numbers in ascending]
    assert any(numbers.tolist() != sorted(numbers) for numbers in drawn)


def test_columns_keep_their_names_in_a_drawn_order(tmp_path: Path) -> None:
    write_data(tmp_path, options='node_labels = [["b", "f"], ["a", "c", "e", "d"]]\nlabel_order = "drawn"')
    data = load_node_data(node(tmp_path, part=2))
    assert sorted(data.info.classes) == list("acde")
    truth = np.load(tmp_path / "ml_scene.npz", allow_pickle=False)
    columns = ["abcdef".index(name) for name in data.info.classes]
    known = {(x.tobytes(), y[columns].tobytes()) for x, y in zip(truth["X"], truth["Y"], strict=True)}
    side = data.sides["train"]
    assert {(x.tobytes(), y.tobytes()) for x, y in zip(side.x, side.y, strict=True)} <= known


def test_rows_are_judged_by_the_nodes_own_labels_and_elsewhere_too(tmp_path: Path) -> None:
    settings = node(write_data(tmp_path, options="deal = [4, 2]"))
    trainer = make_trainer(settings)
    who, backend = Assignment(TrainerFile("T", "here"), settings), InProcessBackend(lambda who: trainer)
    declaration, _ = backend.call(who, PrepareRequest())
    assert (declaration.offers["inputs"]["kind"], declaration.offers["inputs"]["shape"]) == ("features", [20])

    params = trained(trainer, start(trainer), epochs=8)
    rows = np.load(tmp_path / "ml_scene.npz", allow_pickle=False)["X"][:50]
    prediction = backend.call(who, PredictRequest(params, rows))
    assert (prediction.meaning, prediction.values.shape) == (trainer.predicts, (50, 4)) == ("any_of", (50, 4))
    names = predicted(prediction, declaration.data["classes"])
    assert {len(labels) for labels in names} >= {0, 1, 2}

    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime, which runs the file, is not here")
    (values,) = runtime.InferenceSession(backend.call(who, ExportRequest(params, {}))).run(None, {"inputs": rows})
    assert np.abs(values - prediction.values).max() < 1e-4


SEVEN = tuple("abcdefg")


def mesh_nodes(folder: Path, count: int, seed: int) -> list[MultiLabelNet]:
    """All nodes of one mesh, with labels and rows of their own."""
    chance = np.random.default_rng(0)
    y = (chance.random((500, len(SEVEN))) < 0.25).astype(np.uint8)
    x = (y @ chance.normal(size=(len(SEVEN), 20)) + 0.1 * chance.normal(size=(500, 20))).astype(np.float32)
    np.savez(folder / "ml_scene.npz", X=x, Y=y, label_names=SEVEN)
    found = []
    for part in range(1, count + 1):
        state = folder / f"state-{seed}-{part}"
        state.mkdir()
        trainer = make_trainer(TrainerSettings(folder, state, (part, count), seed))
        assert isinstance(trainer, MultiLabelNet)
        found.append(trainer)
    return found


def assert_alike(found: Fit, expected: Fit) -> None:
    assert (found.examples, found.labels) == (expected.examples, expected.labels)
    assert found.metrics == pytest.approx(expected.metrics, abs=1e-5)
    assert found.params.keys() == expected.params.keys()
    for name, value in expected.params.items():
        np.testing.assert_allclose(found.params[name], value, rtol=0, atol=1e-5)


def test_nodes_of_several_meshes_train_together_as_they_do_one_by_one(tmp_path: Path) -> None:
    """Three nodes of one seed and three of another, with heads of 3, 2 and 2 labels and rows that differ."""
    trainers = [trainer for seed in (1, 2) for trainer in mesh_nodes(tmp_path, 3, seed)]
    jobs = [
        (trainer, Task(Params(trainer.initial_params(at)), trainer.defaults, at))
        for at, trainer in enumerate(trainers)
    ]
    assert len({trainer.data_info().rows["train"] for trainer in trainers}) > 1
    fits = MultiLabelNet.fit_many(jobs)
    for (trainer, task), fit in zip(jobs, fits, strict=True):
        assert_alike(fit, trainer.fit(task))
    assert {len(fit.params["head.bias"]) for fit in fits} == {2, 3}


ARFF = "@relation m\n@attribute x numeric\n@attribute Grün {0,1}\n@attribute rot {0,1}\n@data\n"


def arff(path: Path, rows: int = 60) -> Path:
    path.write_text(ARFF + "".join(f"{n},{n % 2},{(n + 1) % 2}\n" for n in range(rows)), "utf-8")
    return path


def test_an_imported_file_is_read_with_the_options_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    arff(tmp_path / "data/mush.arff")
    options = 'file = "mush.arff"\nlabel_columns = ["Grün", "rot"]\nglobal_test = 0\n'
    (tmp_path / "data/multi_label.toml").write_text(unicodedata.normalize("NFD", options), "utf-8")
    (found,) = find_trainers(load_settings({"trainers": "MULTI_LABEL"}, {}))
    place = place_of(found, tmp_path / "data")
    with pytest.raises(DataThere, match=r"it would read those in .*/multi-label only"):
        bring_to(place, arff(tmp_path / "purple.arff", 80), 1.0)
    bring_to(place, tmp_path / "purple.arff", 1.0, replace=True)
    data = load_node_data(TrainerSettings(tmp_path / "data", node(tmp_path).state_path))
    assert data.info.classes == ("Grün", "rot")
    assert sum(data.info.rows.values()) == 80
    assert str(place.path / "purple.arff") in data.info.source


def test_the_only_data_set_in_the_folder_for_imports_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "multi-label"
    folder.mkdir()
    only = arff(folder / "mine.arff")
    assert find(tmp_path)[1] == only
    arff(folder / "other.arff")
    with pytest.raises(DataMissing, match=r"no multi-label data set was found in .*the folder multi-label below"):
        find(tmp_path)


def overlapping(folder: Path) -> list[MultiLabelNet]:
    """Three nodes; the first two have the label b, the last two d."""
    write_data(folder, options="node_labels = [['a', 'b'], ['b', 'c', 'd'], ['d', 'e']]\nglobal_test = 0.1")
    trainers = [make_trainer(node(folder, part, 3)) for part in (1, 2, 3)]
    assert all(isinstance(trainer, MultiLabelNet) for trainer in trainers)
    return [trainer for trainer in trainers if isinstance(trainer, MultiLabelNet)]


def head_of(trainer: MultiLabelNet, params: Any, label: str) -> Array:
    """Weights and bias of one label, as the model of a node has them."""
    own, place = trainer._own(params), trainer.data_info().classes.index(label)
    return np.append(own["head.weight"][place], own["head.bias"][place])


def test_a_label_of_several_nodes_is_averaged_over_those_that_have_it(tmp_path: Path) -> None:
    trainers, shares = overlapping(tmp_path), np.array([0.5, 0.3, 0.2])
    begun = [start(trainer) for trainer in trainers]
    assert declared(trainers[0], "T", begun[0]).shared == (*CORE, *SEVERAL)
    assert all((params[name] == begun[0][name]).all() for params in begun for name in (*CORE, *SEVERAL))
    assert (head_of(trainers[0], begun[0], "b") == head_of(trainers[1], begun[1], "b")).all()
    learnt = [trained(trainer, params) for trainer, params in zip(trainers, begun, strict=True)]
    average = {
        name: np.average([params[name] for params in learnt], axis=0, weights=shares).astype(np.float32)
        for name in (*CORE, *SEVERAL)
    }
    held = [{**params, **average} for params in learnt]
    for label, have in {"b": (0, 1), "d": (1, 2)}.items():
        rows = [head_of(trainers[i], learnt[i], label) for i in have]
        expected = np.average(rows, axis=0, weights=shares[list(have)])
        for i in have:
            assert np.allclose(head_of(trainers[i], held[i], label), expected, atol=1e-6)
        assert np.abs(rows[0] - rows[1]).max() > 1e-3
    for i, label in ((0, "a"), (1, "c"), (2, "e")):  # nobody else has it: it stays private
        assert (head_of(trainers[i], held[i], label) == head_of(trainers[i], learnt[i], label)).all()


def test_where_nobody_with_the_label_took_part_the_own_head_stays(tmp_path: Path) -> None:
    first, _, third = overlapping(tmp_path)
    mine, theirs = trained(first, start(first)), trained(third, start(third))
    # The average of a round of the third node alone.
    held = {**mine, **{name: theirs[name] for name in (*CORE, *SEVERAL)}}
    assert (head_of(first, held, "b") == head_of(first, mine, "b")).all()


def test_nodes_with_common_labels_learn_predict_and_export(tmp_path: Path) -> None:
    trainers = overlapping(tmp_path)
    params = [start(trainer) for trainer in trainers]
    for _ in range(6):
        params = [trained(trainer, each, epochs=4) for trainer, each in zip(trainers, params, strict=True)]
        mean = {name: np.mean([each[name] for each in params], axis=0) for name in (*CORE, *SEVERAL)}
        params = [Params({**each, **mean}) for each in params]
    scores = [checked_score(trainer.evaluate(each), "T") for trainer, each in zip(trainers, params, strict=True)]
    assert min(score.accuracy for score in scores) > 0.8
    rows = trainers[0].inputs()[:5]
    first, second = (trainers[i].predict(params[i], rows).values for i in (0, 1))
    assert np.allclose(first[:, 1], second[:, 0], atol=1e-5)  # one label, one answer
    assert np.allclose(run_onnx(trainers[0], params[0], rows), first, atol=1e-4)
    together = MultiLabelNet.fit_many([(t, Task(p, t.defaults, 1)) for t, p in zip(trainers, params, strict=True)])
    for trainer, each, fit in zip(trainers, params, together, strict=True):
        alone = trainer.fit(Task(each, trainer.defaults, 1))
        assert all(np.allclose(alone.params[name], fit.params[name], atol=1e-5) for name in alone.params)
    assert trainers[0].gradients(Task(params[0], trainers[0].defaults, 1)) is None

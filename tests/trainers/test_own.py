"""The networks of trainers without code: shapes, equal starts, and what each computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from flnet.compute.checks import checked_fit, checked_score, data_fields, declared
from flnet.compute.prediction import read_inputs
from flnet.datasets.labelled import read_npz
from flnet.datasets.no_code_images import load_images
from flnet.datasets.no_code_table import read_table
from flnet.errors import DataMissing, TrainerError
from flnet.labels.spaces import Labelling, LabelSpace
from flnet.params.params import Array, Params
from flnet.protocol.messages import HyperParams
from flnet.trainer import Task, Trainer
from tests.datasets.own_files import class_folders, csv_file, images, node, save, table, two_clouds
from tests.node.mesh import MNIST_3_7, Mesh, until
from tests.trainers.real_data import datasets_path
from trainers._own import make_own
from trainers._own_nets import Net, mlp, small_cnn
from trainers._torch import fresh


@pytest.mark.parametrize(
    ("net", "inputs", "outputs", "numbers"),
    [
        (small_cnn(8, 1, 3), (2, 1, 8, 8), 3, 160 + 4640 + (32 * 4 * 64 + 64) + (64 * 3 + 3)),
        (small_cnn(33, 3, 2), (2, 3, 33, 33), 2, 448 + 4640 + (32 * 64 * 64 + 64) + (64 * 2 + 2)),
        (mlp(12, (), 2), (5, 3, 2, 2), 2, 26),
        (mlp(4, (8, 3), 1), (5, 4), 1, 40 + 27 + 4),
    ],
)
def test_shapes_and_outputs(net: Net, inputs: tuple[int, ...], outputs: int, numbers: int) -> None:
    params = {name: torch.from_numpy(array) for name, array in fresh(net.shapes, 0).items()}
    assert {name: tuple(tensor.shape) for name, tensor in params.items()} == dict(net.shapes)
    assert sum(tensor.numel() for tensor in params.values()) == numbers
    assert net.outputs(params, torch.ones(inputs)).shape == (inputs[0], outputs)


def test_equal_seeds_give_equal_starts() -> None:
    shapes = small_cnn(8, 3, 2).shapes
    one, same, other = fresh(shapes, 1), fresh(shapes, 1), fresh(shapes, 2)
    assert all(np.array_equal(one[name], same[name]) for name in shapes)
    assert not np.array_equal(one["dense.weight"], other["dense.weight"])
    assert float(np.abs(one["dense.bias"]).max()) == 0
    assert float(np.abs(one["dense.weight"]).max()) <= shapes["dense.weight"][1] ** -0.5


def test_a_linear_model_is_linear_and_hidden_layers_are_rectified() -> None:
    linear = mlp(2, (), 1)
    params = {"output.weight": torch.tensor([[2.0, -1.0]]), "output.bias": torch.tensor([0.5])}
    assert linear.outputs(params, torch.tensor([[1.0, 3.0]])).tolist() == [[-0.5]]
    hidden = mlp(1, (1,), 1)
    one = torch.tensor([[1.0]])
    params = {
        "dense1.weight": one,
        "dense1.bias": torch.zeros(1),
        "output.weight": one,
        "output.bias": torch.zeros(1),
    }
    assert hidden.outputs(params, torch.tensor([[-4.0], [4.0]])).tolist() == [[0], [4]]


CANCER = datasets_path() / "vfl_breast_cancer.npz"
TRIGGER = b'{"trainerId": "MNIST_3_7", "rounds": 2}'


def trained(trainer: Trainer, rounds: int = 1, hyper: HyperParams | None = None) -> Params:
    params = Params(trainer.initial_params(0))
    for seed in range(rounds):
        task = Task(params, hyper or trainer.defaults, seed)
        params = Params(checked_fit(trainer.fit(task), params, "T").params)
    return params


def accuracy(trainer: Trainer, params: Mapping[str, Array]) -> float:
    return checked_score(trainer.evaluate(params), "T").accuracy


@pytest.mark.parametrize("model", ["small-cnn", "linear"])
@pytest.mark.parametrize("colour", ["grey", "rgb"])
def test_images_are_learnt(tmp_path: Path, model: str, colour: str) -> None:
    root = class_folders(tmp_path / "pictures", each=40)
    for path in (root / "dog").iterdir():  # brighter, so that grey is enough
        bright = np.full((12, 12, 3), 200, np.uint8)
        bright[:, :6] -= np.uint8(path.stem[-1] == "1") * 50
        save(path, bright)
    trainer = make_own(images(model=model, colour=colour), node(tmp_path))
    params, spec = trained(trainer, 2), trainer.input_spec()
    assert accuracy(trainer, params) >= 0.9
    assert spec is not None
    pictures = np.random.default_rng(0).integers(0, 256, (7, *spec.shape)).astype(np.float32)
    assert furthest(trainer, params, pictures) < 1e-4


def test_the_declaration_holds_what_the_mesh_must_know(tmp_path: Path) -> None:
    class_folders(tmp_path / "pictures")
    own = images(label="Pets", epochs=3, rate=0.5, batch=7, licence="CC0", note="no diagnosis")
    trainer = make_own(own, node(tmp_path))
    said = declared(trainer, "PETS", Params(trainer.initial_params(0)))
    assert (said.label, said.defaults) == ("Pets", HyperParams(e=3, u=0.5, b=7))
    assert said.agreement == {"classes": "cat, dog", "size": "8", "colour": "rgb", "model": "small-cnn"}
    assert said.data["classes"] == ["cat", "dog"]
    assert make_own(images(), node(tmp_path)).label == ""


def test_training_is_a_function_of_parameters_data_and_seed(tmp_path: Path) -> None:
    class_folders(tmp_path / "pictures")
    hyper = HyperParams(e=2, u=0.05, b=8)
    first = trained(make_own(images(), node(tmp_path)), hyper=hyper)
    again = trained(make_own(images(), node(tmp_path)), hyper=hyper)
    assert first == again


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_classes_of_a_table_are_learnt(tmp_path: Path, model: str) -> None:
    csv_file(tmp_path / "t.csv", ["a", "b", "y"], two_clouds(300))
    trainer = make_own(table(model=model), node(tmp_path))
    fit = trainer.fit(Task(Params(trainer.initial_params(0)), trainer.defaults, 0))
    assert (fit.examples, fit.labels) == (trainer.data_info().rows["train"], 2)
    assert accuracy(trainer, fit.params) >= 0.85
    assert furthest(trainer, fit.params, np.array([[0, 100], [2, 140], [1, 120]], np.float32)) < 1e-4


def common_figures(trainer: Trainer, params: Mapping[str, Array]) -> dict[str, float]:
    """Figures of the common test, by the names that they have on the own test rows."""
    metrics = checked_score(trainer.evaluate(params), "T").metrics
    return {name.removeprefix("common_test_"): value for name, value in metrics.items() if "common_test" in name}


def test_two_nodes_with_other_rows_have_the_same_figures_on_a_common_test(tmp_path: Path) -> None:
    csv_file(tmp_path / "common.csv", ["b", "y", "a"], [[b, y, a] for a, b, y in two_clouds(60, seed=9)])
    nodes = []
    for seed in (1, 2):
        csv_file(tmp_path / f"{seed}.csv", ["a", "b", "y"], two_clouds(100, seed))
        own = table(data=f"{seed}.csv", common_test="common.csv", scale={"a": [1, 1], "b": [120, 25]})
        nodes.append(make_own(own, node(tmp_path, f"node{seed}")))
    one, other = nodes
    params = trained(one)
    assert common_figures(one, params) == common_figures(other, params)
    assert one.evaluate(params).metrics["f1_macro"] != other.evaluate(params).metrics["f1_macro"]
    # What the common test says is what a node says that has these rows, and no other ones, for its test.
    alone = table(data="common.csv", split=[1, 1, 8], scale={"a": [1, 1], "b": [120, 25]})
    chances = one.predict(params, np.array([[a, b] for a, b, _ in two_clouds(60, seed=9)], np.float32)).values
    right = np.mean(
        [
            ("no", "yes")[chance.argmax()] == y
            for chance, (*_, y) in zip(chances, two_clouds(60, seed=9), strict=True)
        ]
    )
    assert common_figures(one, params)["accuracy"] == pytest.approx(right)
    assert make_own(alone, node(tmp_path, "alone")).data_info().rows["test"] == 48
    (said,) = {trainer.data_info().note for trainer in nodes}
    assert said.startswith("common test: 60 rows, ") and "too good" not in said
    (mark,) = {trainer.data_info().common_test for trainer in nodes}
    assert len(mark) == 12 and mark in said
    csv_file(tmp_path / "other.csv", ["b", "y", "a"], [[b, y, a] for a, b, y in two_clouds(60, seed=8)])
    others = make_own(table(data="1.csv", common_test="other.csv"), node(tmp_path, "others")).data_info()
    assert others.common_test not in ("", mark)
    assert data_fields(others)["common_test"] == others.common_test
    assert "common_test" not in data_fields(make_own(alone, node(tmp_path, "alone")).data_info())


def test_rows_of_the_common_test_among_the_own_ones_are_counted(tmp_path: Path) -> None:
    csv_file(tmp_path / "t.csv", ["a", "b", "y"], two_clouds(100))
    csv_file(tmp_path / "common.csv", ["a", "b", "y"], two_clouds(100)[:7] + two_clouds(20, seed=9))
    note = make_own(table(common_test="common.csv"), node(tmp_path)).data_info().note
    assert "27 rows" in note and "7 of them are in this node's own data" in note


@pytest.mark.parametrize(
    ("header", "rows", "words"),
    [
        (["a", "y"], [[1, "yes"]], "missing b"),
        (["a", "b", "c", "y"], [[1, 2, 3, "yes"]], "other features than in the data: c"),
        (["a", "b", "y"], [[1, 2, "perhaps"]], "expected one of"),
        (None, (), "correct common_test in the trainer's file"),
    ],
)
def test_a_common_test_that_does_not_fit_is_refused(
    tmp_path: Path, header: list[str] | None, rows: list[list[object]], words: str
) -> None:
    csv_file(tmp_path / "t.csv", ["a", "b", "y"], two_clouds(100))
    if header is not None:
        csv_file(tmp_path / "common.csv", header, rows)
    features = {"features": ["a", "b"]} if words.startswith("missing") else {}
    with pytest.raises((TrainerError, DataMissing)) as refused:
        make_own(table(common_test="common.csv", **features), node(tmp_path))
    assert words in f"{refused.value} {getattr(refused.value, 'remedy', '')}"


def test_images_have_a_common_test_too_which_stays_decoded(tmp_path: Path) -> None:
    class_folders(tmp_path / "pictures", each=30)
    class_folders(tmp_path / "common", each=40)
    save(tmp_path / "common" / "cat" / "x.txt.png", np.zeros((9, 9, 3), np.uint8))
    for _ in range(2):  # the second time from what was decoded
        trainer = make_own(images(common_test="common"), node(tmp_path))
        figures = common_figures(trainer, trained(trainer, 2))
        assert figures["accuracy"] >= 0.9 and figures["f1_macro"] >= 0.9
        assert f"common test: 81 rows, {trainer.data_info().common_test};" in trainer.data_info().note
        assert "60 of them are in this node's own data" in trainer.data_info().note


def test_nodes_that_label_differently_have_the_same_checksum_of_one_common_test(tmp_path: Path) -> None:
    desired = LabelSpace("fine", ("cat", "dog", "cow"))
    class_folders(tmp_path / "pictures", desired.classes)
    class_folders(tmp_path / "common", desired.classes, each=4)
    spaces = [desired, LabelSpace("coarse", ("pet", "farm")), LabelSpace("other", ("beast",))]
    seen = [
        load_images(images(common_test="common"), replace(node(tmp_path, own.id), labels=Labelling(own, desired)))
        for own in spaces
    ]
    assert len({each.info.common_test for each in seen}) == 1
    assert all(each.common is not None and sorted(each.common.y) == [0] * 4 + [1] * 4 + [2] * 4 for each in seen)


@pytest.mark.parametrize("folders", [("cat", "dog"), ("pet", "farm")])
def test_a_common_test_of_which_nothing_can_be_used_is_refused(tmp_path: Path, folders: tuple[str, str]) -> None:
    class_folders(tmp_path / "pictures", ("cat", "dog"))
    class_folders(tmp_path / "common", folders, each=2)
    settings = node(tmp_path)
    if folders == ("pet", "farm"):  # no image there has a label of the desired space
        desired = LabelSpace("fine", ("cat", "dog"))
        settings = replace(settings, labels=Labelling(LabelSpace("coarse", folders), desired))
    else:
        for image in (tmp_path / "common").rglob("*.*"):
            image.write_bytes(b"no image")
    with pytest.raises(TrainerError, match="can be used for the common test"):
        load_images(images(common_test="common", on_bad_file="skip"), settings)


def test_a_regression_is_scored_by_r_squared_beside_errors_in_its_own_unit(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    x = chance.normal(size=(300, 2))
    y = 500 + 40 * x[:, 0] - 30 * x[:, 1] + 5 * chance.normal(size=300)
    csv_file(tmp_path / "t.csv", ["a", "b", "y"], np.c_[x, y].round(4).tolist())
    own = table(task="regress", target_scale=[450, 60])
    trainer = make_own(own, node(tmp_path))
    assert accuracy(trainer, trainer.initial_params(0)) == 0
    score = trainer.evaluate(trained(trainer, 2))
    assert score.accuracy > 0.95
    assert score.metrics["r2"] == score.accuracy
    assert 3 < score.metrics["rmse"] < 8
    assert score.metrics["mae"] < score.metrics["rmse"]
    assert trainer.agreement["target_scale"] == "450, 60"


def test_a_target_that_never_changes_has_no_r_squared(tmp_path: Path) -> None:
    csv_file(tmp_path / "t.csv", ["a", "y"], [[i, 5] for i in range(40)])
    trainer = make_own(table(task="regress", target_scale=[5, 1]), node(tmp_path))
    assert accuracy(trainer, trained(trainer)) == 0


async def test_two_hospitals_train_on_image_folders_of_their_own(tmp_path: Path) -> None:
    rows = await federated([image_node(tmp_path, name, 24) for name in ("north", "south")])
    assert min(rows) >= 0.9


def image_node(tmp_path: Path, name: str, each: int) -> Trainer:
    home = tmp_path / name
    class_folders(home / "pictures", each=each)
    return make_own(images(), node(home))


async def test_two_hospitals_with_other_classes_are_told_what_differs(tmp_path: Path) -> None:
    class_folders(tmp_path / "a/pictures", ("cat", "dog"))
    class_folders(tmp_path / "b/pictures", ("cat", "fox"))
    mesh = Mesh()
    try:
        a = await mesh.add("a", make_own(images(), node(tmp_path / "a")))
        b = await mesh.add("b", make_own(images(), node(tmp_path / "b")), ("a",))
        await mesh.full()
        await a.receive("/training/trigger", TRIGGER, "application/json", "127.0.0.1")
        await until(lambda: a.job(MNIST_3_7).current_round == 1 and a.job(MNIST_3_7).phase == "IDLE")
        said = " | ".join(news.text for news in (*a.feed.recent(), *b.feed.recent()))
        assert "the nodes do not agree on classes: cat, fox at b; cat, dog at a" in said
        assert a.history(MNIST_3_7)[-1]["contributors"] == ["a"]
        assert b.job(MNIST_3_7).current_round == -1
    finally:
        await mesh.stop()


@pytest.mark.data
@pytest.mark.skipif(not CANCER.is_file(), reason="needs vfl_breast_cancer.npz")
async def test_two_hospitals_train_on_the_breast_cancer_table(tmp_path: Path) -> None:
    x, y, names = read_npz(CANCER, ("X", "y", "feature_names"))
    header = [*map(str, names), "diagnosis"]
    rows = [[*map(repr, map(float, a)), ("malignant", "benign")[int(b)]] for a, b in zip(x, y, strict=True)]
    trainers = []
    for part in (0, 1):
        home = tmp_path / str(part)
        home.mkdir()
        csv_file(home / "t.csv", header, rows[part::2])
        own = table(target="diagnosis", classes=["benign", "malignant"])
        trainers.append(make_own(own, node(home)))
    assert min(await federated(trainers)) >= 0.92


async def federated(trainers: list[Trainer]) -> list[float]:
    """Two rounds; the accuracies afterwards. Every node must have taken part in the last one."""
    mesh = Mesh()
    try:
        for name, trainer in zip("ab", trainers, strict=True):
            await mesh.add(name, trainer, ("a",) if name != "a" else ())
        await mesh.full()
        first = mesh.nodes["a"]
        await first.receive("/training/trigger", TRIGGER, "application/json", "127.0.0.1")
        await mesh.idle(1)
        histories = [node.history(MNIST_3_7)[-1] for node in mesh.nodes.values()]
        assert all(record["contributors"] == ["a", "b"] for record in histories)
        return [float(record["post_fedavg_accuracy"]) for record in histories]
    finally:
        await mesh.stop()


def test_an_image_is_judged_as_it_was_trained_on(tmp_path: Path) -> None:
    class_folders(tmp_path / "pictures", each=40)
    trainer = make_own(images(), node(tmp_path))
    spec = trainer.input_spec()
    assert spec is not None
    assert (spec.kind, spec.shape, spec.low, spec.high) == ("image", (8, 8, 3), 0, 255)
    red, green = (np.full((8, 8, 3), 75, np.float32) for _ in "ab")
    red[..., 0] += 100
    green[..., 1] += 100
    found = trainer.predict(trained(trainer, 2), np.stack([red, green]))
    assert found.meaning == trainer.predicts == "one_of"
    assert found.values.argmax(axis=1).tolist() == [0, 1]
    assert np.allclose(found.values.sum(axis=1), 1, atol=1e-5)


def test_a_row_is_judged_by_its_own_numbers_and_categories(tmp_path: Path) -> None:
    rows = [[a, b, ("f", "m")[i % 2], y] for i, (a, b, y) in enumerate(two_clouds(300))]
    csv_file(tmp_path / "t.csv", ["a", "b", "sex", "y"], rows)
    trainer = make_own(table(categories={"sex": ["f", "m"]}), node(tmp_path))
    spec = trainer.input_spec()
    assert spec is not None
    assert spec.names == ("a", "b", "sex=f", "sex=m")
    params, cases = trained(trainer), np.array([[0, 100, 1, 0], [2, 140, 0, 1]], np.float32)
    assert trainer.predict(params, cases).values.argmax(axis=1).tolist() == [0, 1]
    assert furthest(trainer, params, cases) < 1e-4


def test_the_rows_of_the_training_file_are_inputs_as_they_are(tmp_path: Path) -> None:
    rows = [
        [f"K{i}", a, ("f", "m", "")[i % 3], y, "", b if i % 9 else ""]
        for i, (a, b, y) in enumerate(two_clouds(120))
    ]
    header = ["id", "a", "sex", "y", "remark", "b"]
    csv_file(tmp_path / "t.csv", header, rows)
    own = table(categories={"sex": ["f", "m"]}, id="id", features=["b", "a", "sex"], missing="mean")
    trainer = make_own(own, node(tmp_path))
    spec = trainer.input_spec()
    assert spec is not None
    inputs = read_inputs([dict(zip(header, row, strict=True)) for row in rows], spec)
    assert np.array_equal(inputs, read_table(tmp_path / "t.csv", own).x, equal_nan=True)
    params, own_rows = trained(trainer), trainer.inputs()
    assert own_rows is not None
    filled = np.where(np.isnan(inputs), np.nanmean(own_rows[:, 1]), inputs)
    assert np.allclose(trainer.predict(params, inputs).values, trainer.predict(params, filled).values, atol=1e-5)
    assert np.isnan(inputs).any() and furthest(trainer, params, inputs) < 1e-4


def test_a_number_is_told_in_the_targets_own_unit(tmp_path: Path) -> None:
    csv_file(tmp_path / "t.csv", ["a", "y"], [[i, 1000 + 10 * i] for i in range(100)])
    trainer = make_own(table(task="regress", target_scale=[1500, 300]), node(tmp_path))
    params, cases = trained(trainer, 5), np.array([[10], [90]], np.float32)
    found = trainer.predict(params, cases)
    assert found.meaning == trainer.predicts == "scores"
    assert np.allclose(found.values[:, 0], [1100, 1900], atol=30)
    assert trainer.data_info().classes == ("y",)
    assert furthest(trainer, params, cases) < 1e-4


def furthest(trainer: Trainer, params: Mapping[str, Array], inputs: Array) -> float:
    """By how much its ONNX file and the trainer differ; 0 where no file can be run."""
    if find_spec("onnx") is None or find_spec("onnxruntime") is None:
        return 0.0
    import onnxruntime

    file = trainer.onnx(params)
    assert file is not None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    (values,) = onnxruntime.InferenceSession(file, options).run(None, {"inputs": inputs})
    expected = trainer.predict(params, inputs).values
    assert values.shape == expected.shape
    return float(np.abs(values - expected).max() / max(1.0, np.abs(expected).max()))

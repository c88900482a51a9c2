"""What a trainer offers is declared in full, and a prediction is checked before a person sees it."""

from __future__ import annotations

import io
import json
import struct
import unicodedata
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.compute.prediction import (
    MAX_BYTES,
    MAX_INPUTS,
    check_inputs,
    checked_prediction,
    names_of_classes,
    offered,
    picture_input,
    predicted,
    read_inputs,
    spec_of,
)
from flnet.errors import InputRefused, TrainerError
from flnet.trainer import Array, DataInfo, InputSpec, Prediction
from tests.compute.plugins.TINY import Tiny


class Offering(Tiny):
    note = "for a test"
    spec: Any = InputSpec("table", (2,), 0, names=("x", "y"), hint="a point")

    def data_info(self) -> DataInfo:
        return DataInfo("points", {"train": 3}, ("below", "above"), counts={"train": (1, 2)})

    def input_spec(self) -> Any:
        return self.spec

    def onnx(self, params: Mapping[str, Array]) -> bytes | None:
        return b""


def test_a_trainer_that_offers_nothing_says_so() -> None:
    offers = offered(Tiny(0), "TINY")
    assert (offers["inputs"], offers["formats"]) == (None, ["safetensors"])
    assert (offers["note"], offers["licence"], offers["counts"]) == ("", "not stated", {})
    assert spec_of(offers) is None


def test_what_is_offered_survives_json() -> None:
    offers = json.loads(json.dumps(offered(Offering(0), "TINY")))
    assert spec_of(offers) == Offering.spec
    assert offers["formats"] == ["safetensors", "onnx", "folder", "html"]
    assert (offers["note"], offers["counts"]) == ("for a test", {"train": [1, 2]})


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("a point", "expected an InputSpec"),
        (InputSpec("sound", (2,)), "of kind image, features, table"),  # type: ignore[arg-type]
        (InputSpec("image", (2,)), r"shape \[2\] for an input of kind 'image'"),
        (InputSpec("image", (2, 2, 4)), r"shape \[2, 2, 4\]"),
        (InputSpec("table", (2, 2)), r"shape \[2, 2\]"),
        (InputSpec("table", (0,)), r"shape \[0\]"),
        (InputSpec("table", (2,), names=("a",)), "gave 1 names; expected 2"),
        (InputSpec("table", (2,), names=("a", "a")), "expected 2 different ones"),
        (InputSpec("table", (2,), low=float("nan")), "bound of nan"),
    ],
)
def test_a_spec_that_makes_no_sense_is_found_when_the_trainer_is_loaded(spec: Any, words: str) -> None:
    trainer = Offering(0)
    trainer.spec = spec
    with pytest.raises(TrainerError, match=words):
        offered(trainer, "TINY")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.zeros((2, 2)), "gave a ndarray; expected a Prediction"),
        (Prediction(np.zeros((2, 2)), "maybe"), "expected a Prediction"),  # type: ignore[arg-type]
        (Prediction(np.zeros((1, 2))), r"values \[1, 2\]; expected \[2, 2\]"),
        (Prediction(np.zeros((2, 3))), r"expected \[2, 2\]"),
        (Prediction(np.full((2, 2), np.nan), "scores"), "not finite"),
        (Prediction(np.full((2, 2), 2.0), "any_of"), r"outside \[0, 1\]"),
        (Prediction(np.full((2, 2), 0.9)), "do not sum to 1"),
        (Prediction(np.array([["a", "b"]] * 2)), "no numbers"),
    ],
)
def test_nonsense_is_no_prediction(given: Any, words: str) -> None:
    with pytest.raises(TrainerError, match=words):
        checked_prediction(given, 2, 2, "TINY")


def test_the_winner_or_all_that_hold_are_named() -> None:
    names = ["a", "b", "c"]
    one = checked_prediction(Prediction(np.array([[0.2, 0.5, 0.3]])), 1, 3, "T")
    some = checked_prediction(Prediction(np.array([[0.9, 0.1, 0.6], [0, 0, 0]]), "any_of"), 2, 3, "T")
    assert one.values.dtype == np.float32
    assert predicted(one, names) == ["b"]
    assert predicted(some, names) == [["a", "c"], []]
    assert predicted(checked_prediction(Prediction(np.array([[-4, 7]]), "scores"), 1, 0, "T"), ["0", "1"]) == ["1"]
    assert names_of_classes((), np.zeros((1, 2))) == ["0", "1"]
    assert names_of_classes(("x", "y"), np.zeros((1, 2))) == ["x", "y"]


def test_a_prediction_means_what_the_trainer_declares() -> None:
    class Declares(Offering):
        predicts = "any_of"
        label_threshold = 0.3

    said = offered(Declares(0), "T")
    assert (said["predicts"], said["threshold"]) == ("any_of", 0.3)
    made = Prediction(np.array([[0.9, 0.1]]), "any_of", 0.3)
    assert checked_prediction(made, 1, 2, "T", Declares(0)).threshold == 0.3
    assert checked_prediction(made, 1, 2, "T", Offering(0)).meaning == "any_of"  # who declares nothing is free
    with pytest.raises(TrainerError, match="gave one_of; the trainer's attribute predicts says any_of"):
        checked_prediction(Prediction(made.values), 1, 2, "T", Declares(0))
    with pytest.raises(
        TrainerError, match=r"gave the threshold 0\.5; the trainer's attribute label_threshold says 0\.3"
    ):
        checked_prediction(Prediction(made.values, "any_of"), 1, 2, "T", Declares(0))


def test_a_meaning_that_there_is_not_is_found_when_the_trainer_is_loaded() -> None:
    class Odd(Offering):
        predicts: Any = "logits"

    with pytest.raises(TrainerError, match="predicts is 'logits'; expected one_of, any_of, scores, or nothing"):
        offered(Odd(0), "T")


def test_which_model_answered_is_handed_on_in_plain_numbers() -> None:
    given = Prediction(np.ones((2, 1)), answered=("local", "global"), why=(0.5, 2), limit=1)
    checked = checked_prediction(given, 2, 0, "T")
    assert (checked.answered, checked.why, checked.limit) == (("local", "global"), (0.5, 2.0), 1.0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Prediction(np.ones((2, 1)), answered=("local",)), "which model answered"),
        (Prediction(np.ones((2, 1)), answered=("local", "other")), "which model answered"),
        (Prediction(np.ones((2, 1)), why=(0.0,)), "why a model answered"),
        (Prediction(np.ones((2, 1)), why=(0.0, float("nan"))), "why a model answered"),
    ],
)
def test_a_model_that_there_is_not_cannot_have_answered(given: Prediction, words: str) -> None:
    with pytest.raises(TrainerError, match=words):
        checked_prediction(given, 2, 0, "T")


# What a person wants judged is read exactly, or refused with what was expected and what came.


IMAGE = InputSpec("image", (2, 2), 0, 255)
TABLE = InputSpec("table", (2,), names=("age", "height"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)


def test_nested_lists_of_numbers_become_an_array() -> None:
    inputs = read_inputs([[[0, 1], [2, 255.0]]], IMAGE)
    assert (inputs.shape, inputs.dtype.name) == ((1, 2, 2), "float32")
    assert inputs.ravel().tolist() == [0, 1, 2, 255]


def test_columns_may_come_by_name_in_any_order() -> None:
    assert read_inputs([{"height": 2, "age": 1}, [3, 4]], TABLE).tolist() == [[1, 2], [3, 4]]


def test_columns_and_words_may_come_in_any_form_of_their_umlauts() -> None:
    spec = InputSpec("table", (3,), names=("größe", "hut=grün", "hut=rot"))
    row = {"größe": 2, "hut": "grün"}
    apart = {unicodedata.normalize("NFD", name): value for name, value in row.items()}
    apart["hut"] = unicodedata.normalize("NFD", "grün")
    assert read_inputs([row, apart], spec).tolist() == [[2, 1, 0]] * 2


@pytest.mark.parametrize(
    ("values", "spec", "words"),
    [
        (5, IMAGE, "expected a list of 1 to 1000 inputs, got a int"),
        ([{"height": "a" + "\u0301" * 2000, "age": 1}], TABLE, "input 0: more than 30 accents on one sign"),
        ([], IMAGE, "1 to 1000 inputs, got 0"),
        ([[0, 0]] * (MAX_INPUTS + 1), TABLE, "got 1001"),
        ([[[0, 1], [2]]], IMAGE, r"uneven; expected each of shape \[2, 2\]"),
        ([[[0, 1, 2], [2, 3, 4]]], IMAGE, r"shape \[1, 2, 3\]; expected \[n, 2, 2\]"),
        ([[0, 1]], IMAGE, r"shape \[1, 2\]; expected"),
        ([[["0", "1"], ["2", "3"]]], IMAGE, "something else than numbers"),
        ([[[None, 1], [2, 3]]], IMAGE, "something else than numbers"),
        ([[True, False]], TABLE, "something else than numbers"),
        ([[10**30, 1]], TABLE, "something else than numbers"),
        ([[[0, 1], [2, 256]]], IMAGE, r"input \[0, 1, 1\] is 256; expected 0 to 255"),
        ([[1, float("nan")]], TABLE, "input 0, column 'height', is not a finite number"),
        ([[1e39, 1]], TABLE, "column 'age', is not a finite number in float32"),
        ([{"age": 1}], TABLE, "input 0 lacks 'height'; the columns are 'age', 'height'"),
        ([{"age": 1, "height": 2, "x": 3}], TABLE, "input 0 has unknown 'x'"),
        (
            [{"a": 1}],
            IMAGE,
            r"input 0 is a row with named columns; this trainer takes pictures, or \[2, 2\] numbers",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_words(values: Any, spec: InputSpec, words: str) -> None:
    with pytest.raises(InputRefused, match=words):
        read_inputs(values, spec)


# As of a table with columns of words.
OWN = InputSpec("table", (4,), names=("age", "sex=f", "sex=m", "ward=1"), ignored=("id", "ill"), gaps=True)


def test_a_row_of_the_training_file_is_an_input_in_any_order() -> None:
    rows = [
        {"ill": "yes", "sex": "m", "age": 41.5, "ward": "1", "id": "K1"},
        {"ward": 1.0, "age": 3, "sex": " f "},
        {"age": 3, "sex=f": 0, "sex=m": 1, "ward=1": 0},
        [1, 0, 1, 0],
    ]
    assert read_inputs(rows, OWN).tolist() == [[41.5, 0, 1, 1], [3, 1, 0, 1], [3, 0, 1, 0], [1, 0, 1, 0]]


def test_missing_values_are_nan_and_none_of_the_words_where_they_may_be_missing() -> None:
    inputs = read_inputs([{"age": cell, "sex": cell, "ward": None} for cell in ("", "?", "NA", None)], OWN)
    assert np.isnan(inputs[:, 0]).all()
    assert not inputs[:, 1:].any()
    assert check_inputs(inputs, OWN).shape == (4, 4)  # the training child checks them again


@pytest.mark.parametrize(
    ("row", "spec", "words"),
    [
        ({"age": "old", "sex": "f", "ward": "1"}, OWN, "input 0, column 'age', is 'old'; expected a number"),
        ({"age": 1, "sex": "x", "ward": "1"}, OWN, "input 0, column 'sex', is 'x'; expected one of 'f', 'm'"),
        ({"age": 1, "sex": "f", "ward": 2}, OWN, "column 'ward', is 2; expected one of '1'"),
        ({"age": 1, "ward": "1"}, OWN, r"input 0 lacks 'sex' \('f', 'm'\); the columns are 'age', 'sex', 'ward'"),
        ({"x": 1}, OWN, r"input 0 lacks 'age', 'sex' \('f', 'm'\), 'ward' \('1'\) and has unknown 'x'"),
        ({"age": 1, "ward": "1", "sex=f": 1}, OWN, "input 0 lacks 'sex=m'; the columns"),
        ({"age": 1, "sex": "f", "ward": "1", "x": 1}, OWN, "input 0 has unknown 'x'"),
        ({"age": float("inf"), "sex": "f", "ward": "1"}, OWN, "is not a finite number"),
        ({"age": "", "height": 1}, TABLE, "input 0, column 'age', has no value"),
        ({"age": None, "height": 1}, TABLE, "input 0, column 'age', has no value"),
    ],
)
def test_a_row_that_is_not_as_in_the_training_file_is_refused(row: Any, spec: InputSpec, words: str) -> None:
    with pytest.raises(InputRefused, match=words):
        read_inputs([row], spec)


def test_what_a_spec_says_of_rows_of_the_training_file_reaches_the_node() -> None:
    class Told(Offering):
        spec = OWN

    said = offered(Told(0), "T")
    assert spec_of(json.loads(json.dumps(said))) == OWN


@given(JSON, st.sampled_from([IMAGE, TABLE]))
def test_anything_gives_inputs_or_a_refusal(values: Any, spec: InputSpec) -> None:
    try:
        inputs = read_inputs(values, spec)
    except InputRefused:
        return
    assert inputs.shape[1:] == spec.shape
    assert np.isfinite(inputs).all()


# Pictures become inputs of the right size and range; what is no picture, or a bomb, is refused.


Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
GREY, COLOUR = InputSpec("image", (4, 6), 0, 255), InputSpec("image", (4, 6, 3), 0, 1)


def file_of(array: np.ndarray, form: str = "PNG") -> bytes:
    out = io.BytesIO()
    Image.fromarray(array).save(out, form)
    return out.getvalue()


def test_a_picture_of_the_right_size_is_taken_pixel_by_pixel() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(4, 6)
    assert np.array_equal(picture_input(file_of(pixels), GREY), pixels[None])


def test_others_are_squeezed_and_brought_to_the_range() -> None:
    white = np.full((40, 30), 255, np.uint8)
    found = picture_input(file_of(white, "JPEG"), COLOUR)
    assert (found.shape, found.dtype.name) == ((1, 4, 6, 3), "float32")
    assert found.min() == found.max() == 1.0


def test_colours_become_grey_where_grey_is_wanted() -> None:
    grey = picture_input(file_of(np.full((4, 6, 3), 100, np.uint8)), InputSpec("image", (4, 6, 1)))
    assert grey.shape == (1, 4, 6, 1)
    assert grey.max() == grey.min() == 100


def header_of(width: int, height: int) -> bytes:
    """A PNG that says it is so large, in a hundred bytes."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    size = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "has 0 bytes"),
        (b"x" * (MAX_BYTES + 1), f"expected 1 to {MAX_BYTES}"),
        (b"no picture at all", "neither a JPEG nor a PNG"),
        (file_of(np.zeros((4, 6), np.uint8), "BMP"), "neither a JPEG nor a PNG"),
        (file_of(np.arange(2400, dtype=np.uint8).reshape(40, 60))[:-80], "cannot be read"),
        (header_of(8000, 8000), "8000 x 8000 pixels; at most 40000000"),
        (header_of(10_000, 10_000), "too many pixels; at most 40000000"),
        (header_of(60_000, 60_000), "too many pixels; at most 40000000"),
    ],
)
def test_what_is_no_picture_or_too_large_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(InputRefused, match=words):
        picture_input(data, GREY)


def test_a_trainer_of_tables_takes_no_picture() -> None:
    with pytest.raises(InputRefused, match=r"takes table of shape \[2\], no pictures"):
        picture_input(b"x", InputSpec("table", (2,)))

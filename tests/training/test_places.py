from __future__ import annotations

from pathlib import Path

import pytest

from flnet.settings import load_settings
from flnet.training.api import TrainerFile
from flnet.training.loader import find_trainers
from flnet.training.places import DataThere, ImportRefused, place_of


def file(place: str) -> TrainerFile:
    return TrainerFile("X", "x.py", place=place)


def test_the_trainers_that_come_with_flnet_say_where_they_look() -> None:
    places = {found.id: found.place for found in find_trainers(load_settings({}, {}))}
    assert places == {
        "CHEST_SUBTYPES": "chest_xray",
        "CHEST_X_RAY_PNEUMONIA": "chest_xray",
        "CIFAR10": "cifar10",
        "CIFAR10_SMALL": "cifar10",
        "DIGIT_DOMAINS": "",
        "MNIST": "mnist",
        "MNIST_3_7": "mnist",
        "MOOC": "mooc_kddcup2015.npz",
        "MOOC_K_MEANS": "mooc_kddcup2015.npz",
        "MULTI_LABEL": "multi-label",
        "PICTURE_GROUPS": "pictures",
        "SMALL_DIGITS": "",
    }


def test_a_trainer_of_toml_names_a_folder_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "PETS.toml").write_text('kind = "images"\ndata = "pets"\n')
    (tmp_path / "ILL.toml").write_text('kind = "table"\ndata = "ill.CSV"\ntarget = "ill"\n')
    found = find_trainers(load_settings({"trainers_path": tmp_path, "trainers": "PETS,ILL"}, {}))
    places = {one.id: place_of(one, tmp_path) for one in found}
    assert (places["PETS"].path, places["PETS"].is_file) == (tmp_path.resolve() / "pets", False)
    assert (places["ILL"].path, places["ILL"].is_file) == (tmp_path.resolve() / "ill.CSV", True)


@pytest.mark.parametrize("place", ["/elsewhere", "../elsewhere", ".", "a/../.."])
def test_nothing_goes_elsewhere_than_below_the_folder_of_data_sets(tmp_path: Path, place: str) -> None:
    with pytest.raises(ImportRefused, match="which is not below"):
        place_of(file(place), tmp_path)


def test_what_is_not_said_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ImportRefused, match="set FLNET_DATASETS_PATH"):
        place_of(file("x"), None)
    with pytest.raises(ImportRefused, match="DATA_PLACE"):
        place_of(file(""), tmp_path)


def test_data_that_are_there_are_not_written_over(tmp_path: Path) -> None:
    place = place_of(file("x"), tmp_path)
    place.must_be_free()
    place.path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(DataThere, match="replace=true"):
        place.must_be_free()

"""Trainers are found without running them, and imported with every fault in words."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from flnet.compute import loader
from flnet.compute.loader import Sources, UnreadableSource, families, find_trainers, import_trainer
from flnet.errors import SettingsError, TrainerError
from flnet.installing import install
from flnet.settings import Settings
from flnet.trainer import Method, TrainerFile, TrainerSettings
from tests.compute.bench import plugin


def found(folder: Path, **settings: object) -> dict[str, TrainerFile]:
    read = Settings.model_validate({"trainers_path": folder, **settings})
    return {file.id: file for file in find_trainers(read)}


def test_shipped_trainers_are_found_and_their_frameworks_known() -> None:
    files = {file.id: file for file in find_trainers(Settings())}
    assert files.keys() >= {"MNIST", "MNIST_3_7"}
    assert not any(file.error for file in files.values())
    assert files["MNIST"].module == "flnet_trainers.MNIST"
    assert files["MNIST"].frameworks == {"torch"}
    assert files["MNIST_3_7"].frameworks == frozenset()


def test_trainers_for_research_are_offered_where_they_are_named() -> None:
    offered = {file.id for file in find_trainers(Settings())}
    research = {file.id for file in find_trainers(Settings(), every=True)} - offered
    assert research == {
        *(
            "CHEST_SUBTYPES",
            "CIFAR10_HEADS",
            "CIFAR10_SMALL",
            "DIGIT_DOMAINS",
            "MOOC_K_MEANS",
            "PICTURE_GROUPS",
            "SMALL_DIGITS",
        )
    }
    named = find_trainers(Settings.model_validate({"trainers": ("MNIST_3_7", "SMALL_DIGITS")}))
    assert [file.id for file in named] == ["MNIST_3_7", "SMALL_DIGITS"]


def test_a_file_that_is_offered_in_no_known_way_says_so(folder: Path) -> None:
    (folder / "SOMETIMES.py").write_text('OFFERED = "sometimes"\n')
    assert "OFFERED is" in found(folder)["SOMETIMES"].error


@pytest.mark.parametrize("place", ["here", "elsewhere"])
def test_nothing_of_a_framework_is_imported_to_find_out_that_data_are_missing(
    folder: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "data" / place).mkdir(parents=True)
    package = folder / f"heavy_{place}"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "_reader.py").write_text(
        "from flnet.errors import DataMissing\ndef load(settings): raise DataMissing('none', 'get some')\n"
    )
    (package / "HEAVY.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(str(folder))
    source, torch = package / "HEAVY.py", frozenset({"torch"})
    file = TrainerFile(
        "HEAVY", str(source), "", f"heavy_{place}.HEAVY", "make_trainer", torch, "here", "_reader:load"
    )
    with pytest.raises(TrainerError, match="imported" if place == "here" else "none"):
        import_trainer(file, TrainerSettings(folder / "data", folder / "state"))


def test_files_and_folders_are_found_helpers_and_other_things_are_not(folder: Path) -> None:
    (folder / "_helper.py").touch()
    (folder / "__init__.py").touch()
    (folder / ".hidden.py").touch()
    (folder / "notes.txt").touch()
    (folder / "just_a_folder").mkdir()
    (folder / "PACKED").mkdir()
    (folder / "PACKED/__init__.py").touch()
    shipped = {file.id for file in find_trainers(Settings())}
    assert found(folder).keys() - shipped == {"TINY", "PACKED"}


def test_finding_runs_nothing(folder: Path) -> None:
    (folder / "BOMB.py").write_text("raise SystemExit('it ran')")
    assert found(folder)["BOMB"].error == ""


def test_what_cannot_be_offered_says_why(folder: Path) -> None:
    (folder / "not-a-name.py").touch()
    (folder / "BROKEN.py").write_text("def f(:\n")
    (folder / "BINARY.py").write_bytes(b"\0\xff")
    (folder / "MNIST.py").touch()
    files = found(folder)
    assert "letters, digits and underscores" in files["not-a-name"].error
    assert "BROKEN.py, line 1: SyntaxError" in files["BROKEN"].error
    assert "BINARY.py" in files["BINARY"].error
    assert "two trainers are named MNIST" in files["MNIST"].error
    assert str(folder) in files["MNIST"].error


def test_a_choice_of_trainers_is_kept(folder: Path) -> None:
    assert found(folder, trainers="TINY").keys() == {"TINY"}


def test_only_those_that_are_asked_for_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def note(sources: Sources, path: Path) -> dict[str, str]:
        read.append(path.stem)
        return {}

    monkeypatch.setattr(Sources, "constants_of", note)
    found(folder, trainers="TINY")
    assert read == ["TINY"]
    found(folder)
    assert {"TINY", "MNIST"} < set(read)


def test_a_wrong_name_in_the_choice_stops_the_start(folder: Path) -> None:
    with pytest.raises(SettingsError, match=r"FLNET_TRAINERS names MINST, but this node has .*TINY"):
        found(folder, trainers="TINY,MINST")


def test_a_folder_that_is_none_stops_the_start(folder: Path) -> None:
    with pytest.raises(SettingsError, match=r"FLNET_TRAINERS_PATH=.* is no folder"):
        found(folder / "absent")


def test_installed_packages_are_found_without_importing_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = folder / "site" / "a_trainer_package"
    (package / "deep").mkdir(parents=True)
    for init in (package, package / "deep"):
        (init / "__init__.py").write_text("raise SystemExit('it ran')")
    (package / "deep/model.py").write_text("import keras")
    monkeypatch.syspath_prepend(str(folder / "site"))
    entries = [
        EntryPoint("INSTALLED", "a_trainer_package.deep.model:make", loader.GROUP),
        EntryPoint("WHOLE", "a_trainer_package", loader.GROUP),
        EntryPoint("LOST", "no_such_package.x:make", loader.GROUP),
    ]
    monkeypatch.setattr(loader, "entry_points", lambda group: entries)
    files = found(folder)
    assert (files["INSTALLED"].module, files["INSTALLED"].attribute) == ("a_trainer_package.deep.model", "make")
    assert files["INSTALLED"].frameworks == {"tensorflow"}
    assert files["WHOLE"].attribute == "make_trainer"
    assert "cannot be found" in files["LOST"].error
    assert "a_trainer_package" not in sys.modules


def test_a_folder_is_imported_with_what_lies_in_it_and_beside_it(folder: Path, tmp_path: Path) -> None:
    plugin(folder, "helper")
    (folder / "PACKED").mkdir()
    (folder / "PACKED/inner.py").write_text("NAME = 'inside'")
    (folder / "PACKED/__init__.py").write_text(
        "from helper import *\nfrom . import inner\nassert inner.NAME == 'inside'"
    )
    assert import_trainer(found(folder)["PACKED"], TrainerSettings(None, tmp_path)).label == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 / 0", r"trainer ODD cannot be loaded: ZeroDivisionError: division by zero \(ODD.py, line 1\)"),
        ("raise SystemExit(1)", "SystemExit: 1"),
        ("import not_installed", "No module named 'not_installed'.*; it has to be installed on this node too"),
        ("raise ModuleNotFoundError('No torch', name='torch')", "; " + re.escape(install("torch"))),
        ("def make_trainer(settings): return 5", "gave a int; expected a Trainer"),
        ("def make_trainer(): pass", "TypeError: make_trainer.. takes 0 positional arguments"),
        ("make_trainer = None", r"defines no function make_trainer\(settings\)"),
    ],
)
def test_a_trainer_that_cannot_be_made_says_why(folder: Path, tmp_path: Path, text: str, words: str) -> None:
    (folder / "ODD.py").write_text(text)
    with pytest.raises(TrainerError, match=words):
        import_trainer(found(folder)["ODD"], TrainerSettings(None, tmp_path))


def test_a_file_with_an_error_is_not_imported(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="because"):
        import_trainer(TrainerFile("X", "nowhere", error="because"), TrainerSettings(None, tmp_path))


def test_a_toml_file_is_a_trainer_found_without_a_framework(folder: Path) -> None:
    (folder / "MY_TABLE.toml").write_text('kind = "table"\ndata = "t.csv"\ntarget = "y"\n')
    (folder / "_notes.toml").write_text("broken [")
    (folder / "flnet.toml").write_text("node_port = 4000\n")
    own = found(folder)["MY_TABLE"]
    assert (own.error, own.module, own.attribute, own.frameworks) == (
        "",
        "flnet_trainers._own",
        "make_own",
        frozenset({"torch"}),
    )
    assert found(folder).keys() >= {"TINY", "MY_TABLE"}
    assert not found(folder).keys() & {"_notes", "flnet"}


def test_a_broken_toml_file_says_why_and_harms_nobody(folder: Path, tmp_path: Path) -> None:
    (folder / "BROKEN.toml").write_text('kind = "table"\ndata = [\n')
    (folder / "WRONG.toml").write_text('kind = "images"\ndata = "x"\nsize = 3\n')
    (folder / "no-name.toml").touch()
    (folder / "TINY.toml").write_text('kind = "images"\ndata = "x"\n')
    files = found(folder)
    assert "BROKEN.toml, line 2: " in files["BROKEN"].error
    assert "WRONG.toml, line 3: size: " in files["WRONG"].error
    assert "letters, digits and underscores" in files["no-name"].error
    assert "two trainers are named TINY" in files["TINY"].error
    assert not files["MNIST"].error
    with pytest.raises(TrainerError, match=r"WRONG\.toml, line 3"):
        import_trainer(files["WRONG"], TrainerSettings(None, tmp_path))


def test_a_toml_file_that_was_spoilt_since_it_was_found_says_so(folder: Path, tmp_path: Path) -> None:
    path = folder / "MY.toml"
    path.write_text('kind = "images"\ndata = "x"\n')
    own = replace(found(folder)["MY"], module="json", attribute="loads")  # which imports no framework
    path.write_text("kind = ")
    with pytest.raises(TrainerError, match=r"MY\.toml, line 1: Invalid value"):
        import_trainer(own, TrainerSettings(None, tmp_path))


def test_trainers_of_several_nodes_in_one_process_are_of_one_class(folder: Path, tmp_path: Path) -> None:
    file, told = found(folder)["TINY"], TrainerSettings(None, tmp_path)
    one, other = (import_trainer(file, told, again=False) for _ in range(2))
    assert type(one) is type(other)
    assert type(import_trainer(file, told)) is not type(one)  # read again: it may have changed


def test_what_a_method_does_is_wrapped_around_the_trainer(folder: Path, tmp_path: Path) -> None:
    told = TrainerSettings(None, tmp_path, method=Method(personal="increment"))
    plain = import_trainer(found(folder)["TINY"], TrainerSettings(None, tmp_path))
    wrapped = import_trainer(found(folder)["TINY"], told)
    assert wrapped.personalises
    assert not plain.personalises
    names = set(plain.initial_params(0))
    assert set(wrapped.initial_params(0)) > names == set(wrapped.shared or ())


def test_a_method_that_the_trainer_cannot_do_is_refused_in_words(folder: Path, tmp_path: Path) -> None:
    told = TrainerSettings(None, tmp_path, method=Method("proximal:0.1"))
    words = "FLNET_LOCAL_TRAINING=proximal:0.1 needs a trainer that honours the proximal term, which TINY does not"
    with pytest.raises(TrainerError, match=words):
        import_trainer(found(folder)["TINY"], told)


# The frameworks of a trainer are read off its text.


@pytest.mark.parametrize(
    ("text", "frameworks"),
    [
        ("import torch.nn as nn", {"torch"}),
        ("def f():\n    from torch import Tensor", {"torch"}),
        ("import torchvision, mytorch", set()),
        ("import keras\nimport torch", {"tensorflow", "torch"}),
        ("from _beside import model", {"tensorflow"}),
        ("import folder.inner", {"torch"}),
        ("try:\n    pass\nexcept OSError:\n    import torch\nelse:\n    import jax", {"jax", "torch"}),
        (
            "match 1:\n  case 1:\n    class A:\n      async def f(self):\n        import keras",
            {"tensorflow"},
        ),
        ("", set()),
    ],
)
def test_frameworks_are_read_off_the_source_and_the_files_beside_it(
    tmp_path: Path, text: str, frameworks: set[str]
) -> None:
    (tmp_path / "_beside.py").write_text("import _beside\nfrom tensorflow import keras")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/__init__.py").write_text("from torch import nn")
    (tmp_path / "X.py").write_text(text)
    assert Sources().frameworks_of(tmp_path / "X.py") == frameworks


def test_a_file_that_went_away_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnreadableSource, match="cannot be read"):
        Sources().frameworks_of(tmp_path / "X.py")


def test_modules_belong_to_families() -> None:
    assert families(["torch.nn", "keras", "tensorflow.math", "numpy", "torchvision"]) == {"torch", "tensorflow"}


def test_the_place_of_the_data_is_read_from_the_text(tmp_path: Path) -> None:
    (tmp_path / "X.py").write_text('import nowhere\nOTHER = 1\nDATA_PLACE = "pets"\nDATA_OPTIONS = "x.toml"\n')
    assert Sources().constants_of(tmp_path / "X.py") == {"DATA_PLACE": "pets", "DATA_OPTIONS": "x.toml"}
    (tmp_path / "X.py").write_text('DATA_READER = "_x:load"\nLABEL = text("Cats and dogs")\n')
    assert Sources().constants_of(tmp_path / "X.py") == {"DATA_READER": "_x:load", "LABEL": "Cats and dogs"}
    (tmp_path / "X.py").write_text("DATA_PLACE = 1\nx.DATA_PLACE = 'a'\n")
    assert Sources().constants_of(tmp_path / "X.py") == {}


def test_a_file_that_several_trainers_import_is_read_once(tmp_path: Path) -> None:
    common = tmp_path / "_common.py"
    common.write_text("import torch")
    for name in "AB":
        (tmp_path / f"{name}.py").write_text("import _common")
    sources = Sources()
    assert sources.frameworks_of(tmp_path / "A.py") == {"torch"}
    common.unlink()
    assert sources.frameworks_of(tmp_path / "B.py") == {"torch"}

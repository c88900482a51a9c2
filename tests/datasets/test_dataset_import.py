"""Data brought to a trainer: whole, in their place, and nowhere else; or not at all."""

from __future__ import annotations

import errno
import os
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flnet.compute.loader import find_trainers
from flnet.datasets import archives
from flnet.datasets import dataset_import as importing
from flnet.datasets.dataset_import import ImportedFolder, Place, Upload, add_to, bring_to, place_of
from flnet.datasets.no_code_images import load_images
from flnet.datasets.no_code_table import load_table, read_table
from flnet.errors import DataThere, ImportRefused, NoRoom, TrainerError
from flnet.settings import load_settings
from flnet.text import Text
from flnet.trainer import TrainerFile
from tests.datasets.evil_archives import tarred, zipped
from tests.datasets.own_files import class_folders, csv_file, images, node, picture, save, two_clouds
from tests.datasets.own_files import table as table_adding

GB = 1.0


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return place_of(TrainerFile("X", "x.py", place="pets"), tmp_path / "data")


@pytest.fixture
def table(tmp_path: Path) -> Place:
    return place_of(TrainerFile("X", "x.toml", place="ill.csv"), tmp_path / "data")


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def given(upload: Upload, *files: tuple[str, bytes]) -> Upload:
    for name, data in files:
        upload.begin(name)
        upload.write(data[:1])
        upload.write(data[1:])
    return upload


def test_bombs_are_refused(tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = zipped(tmp_path / "a.zip", ("zeros", bytes(3_000_000)))
    with pytest.raises(ImportRefused, match=r"a.zip holds more than 0.001 GB; FLNET_MAX_IMPORT_GIGABYTES=0.001"):
        bring_to(place, bomb, 0.001)
    monkeypatch.setattr(archives, "SMALL", 1000)
    with pytest.raises(ImportRefused, match="holds more than"):  # 200 times as large, and no more
        bring_to(place, bomb, GB)
    monkeypatch.setattr(archives, "MAX_FILES", 10)
    with pytest.raises(ImportRefused, match="more than 10 files"):
        bring_to(place, zipped(tmp_path / "b.zip", *((str(n), b"") for n in range(20))), GB)
    assert list(place.datasets.iterdir()) == []


@pytest.mark.parametrize(
    "pack",
    [
        lambda f: zipped(f / "a.zip", ("pets/cat/1", b"11"), ("pets/dog/2", b"2"), ("__MACOSX/x", b"")),
        lambda f: tarred(f / "a.tar.gz", ("cat/1", b"11"), ("dog/2", b"2")),
    ],
)
def test_an_archive_fills_the_place(tmp_path: Path, place: Place, pack: Callable[[Path], Path]) -> None:
    moved = bring_to(place, pack(tmp_path), GB)
    assert (moved.place, moved.files, moved.size, moved.aside) == (place.path, 2, 3, None)
    assert contents(place.datasets) == {"pets/cat/1": b"11", "pets/dog/2": b"2"}


def test_files_of_a_chosen_folder_fill_the_place(place: Place) -> None:
    upload = given(Upload(place, GB), ("chosen/cat/1", b"11"), ("chosen/.DS_Store", b"x"), ("chosen/dog/2", b"2"))
    assert contents(upload.settle().place) == {"cat/1": b"11", "dog/2": b"2"}
    assert [path.name for path in place.datasets.iterdir()] == ["pets"]


def test_one_file_goes_into_a_folder_or_becomes_the_file_that_is_read(
    place: Place, table: Place, tmp_path: Path
) -> None:
    given(Upload(place, GB), ("x.npz", b"xyz")).settle()
    given(Upload(table, GB), ("other name.csv", b"a,b")).settle()
    assert contents(place.datasets) == {"pets/x.npz": b"xyz", "ill.csv": b"a,b"}
    with pytest.raises(ImportRefused, match=r"reads one file, ill.csv; 2 came"):
        given(Upload(table, GB, replace=True), ("a.csv", b"1"), ("b.csv", b"2")).settle()
    assert contents(table.datasets)["ill.csv"] == b"a,b"
    bring_to(table, zipped(tmp_path / "a.zip", ("t/x.csv", b"new")), GB, replace=True)
    assert contents(table.datasets)["ill.csv"] == b"new"


def test_what_is_there_stays_unless_it_is_to_be_replaced(place: Place) -> None:
    first = Upload(place, GB)
    given(Upload(place, GB), ("x", b"old")).settle()
    with pytest.raises(DataThere, match=r"has data in .*pets already"):
        Upload(place, GB)
    with pytest.raises(DataThere):  # both began before there was anything
        given(first, ("x", b"late")).settle()
    moved = given(Upload(place, GB, replace=True), ("x", b"new")).settle()
    assert contents(place.datasets) == {"pets/x": b"new", "pets.before-1/x": b"old"}
    again = given(Upload(place, GB, replace=True), ("x", b"newer")).settle()
    assert (moved.aside, again.aside) == (place.datasets / "pets.before-1", place.datasets / "pets.before-2")
    again.undo()
    assert contents(place.datasets) == {"pets/x": b"new", "pets.before-1/x": b"old"}
    moved.undo()
    assert contents(place.datasets) == {"pets/x": b"old"}


def test_a_broken_upload_leaves_nothing(place: Place) -> None:
    upload = given(Upload(place, GB), ("x", b"half"))
    assert len(contents(place.datasets)) == 1
    upload.discard()
    upload.discard()
    assert list(place.datasets.iterdir()) == []
    with pytest.raises(ImportRefused, match="no files came"):
        Upload(place, GB).settle()
    with pytest.raises(ImportRefused, match="File exists"):
        given(Upload(place, GB), ("x", b"1"), ("./x", b"2"))


def test_more_than_allowed_is_refused_while_it_comes(place: Place) -> None:
    upload = Upload(place, 2e-6)
    upload.begin("x")
    upload.write(bytes(2000))
    with pytest.raises(ImportRefused, match="holds more than 2e-06 GB"):
        upload.write(b"1")
    upload.discard()


def test_a_full_disk_is_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def write(self, data: Any) -> None:
            raise OSError(errno.ENOSPC, "no space")

        def close(self) -> None:
            raise OSError(errno.ENOSPC, "no space")

    upload = Upload(place, GB)
    upload._open = Full()  # type: ignore[assignment]
    with pytest.raises(NoRoom, match=r"the disk of .* is full; make room"):
        upload.write(b"x")
    upload.discard()
    assert list(place.datasets.iterdir()) == []


def test_a_rename_that_fails_puts_the_old_data_back(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    given(Upload(place, GB), ("x", b"old")).settle()
    upload = given(Upload(place, GB, replace=True), ("y", b"new"))
    plain = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if self.name == "came":
            raise PermissionError(errno.EPERM, "not allowed")
        return plain(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(ImportRefused, match="not allowed"):
        upload.settle()
    assert contents(place.datasets) == {"pets/x": b"old"}


def test_what_a_killed_process_left_is_swept_away(place: Place) -> None:
    place.datasets.mkdir()
    dead, alive = place.datasets / ".import-999999999-x", place.datasets / f".import-{os.getppid()}-x"
    for folder in (dead, alive, place.datasets / ".import-mine"):
        folder.mkdir()
    Upload(place, GB).discard()
    assert not dead.exists()
    assert alive.exists()
    assert importing.DRAFT == ".import-"


def test_links_and_nothing_are_not_brought(place: Place, tmp_path: Path) -> None:
    (tmp_path / "pets").mkdir()
    (tmp_path / "pets/x").symlink_to("/etc/passwd")
    with pytest.raises(ImportRefused, match="is a link or a device"):
        bring_to(place, tmp_path / "pets", GB)
    with pytest.raises(ImportRefused, match="is not there"):
        bring_to(place, tmp_path / "nowhere", GB)


# Further examples: added to what is there, once, without touching it; or refused, and nothing has changed.


HEADER = ["a", "b", "y"]


def table_place(folder: Path) -> Place:
    return place_of(TrainerFile("T", "t.toml", place="t.csv"), folder)


def image_place(folder: Path) -> Place:
    return place_of(file("pictures"), folder)


def come(folder: Path) -> Path:
    came = folder / "came"
    came.mkdir(exist_ok=True)
    return came


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


def test_rows_are_put_behind_the_old_ones_in_the_order_of_their_columns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;b;y\n1;2;no\n3;4;yes")  # without an end of line
    (come(tmp_path) / "more.csv").write_text('y,b,a\nyes,"6,5",5\n')
    added = add_to(table_place(tmp_path), come(tmp_path))
    assert lines(tmp_path / "t.csv") == ["a;b;y", "1;2;no", "3;4;yes", "5;6,5;yes"]
    assert (added.files, added.size) == (1, 11)
    added.undo()
    assert (tmp_path / "t.csv").read_text() == "a;b;y\n1;2;no\n3;4;yes"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["came", "t.csv"]


@pytest.mark.parametrize(
    ("header", "stated", "new"),
    [
        ('"weight, kg";"height, cm";y', ";", '"weight, kg";"height, cm";y\n5;6;a\n'),
        ("weight, kg;height, cm;y", ";", "weight, kg;height, cm;y\n5;6;a\n"),
        ("weight, all, kg;height, all, cm;y", ";", '"weight, all, kg";"height, all, cm";y\n5;6;a\n'),
        ("weight; kg\theight; cm\ty", "tab", "weight; kg\theight; cm\ty\n5\t6\ta\n"),
        ('"weight, kg";"height, cm";y', "", '"weight, kg","height, cm",y\n5,6,a\n'),
    ],
)
def test_columns_are_separated_as_the_trainers_file_says(
    tmp_path: Path, header: str, stated: str, new: str
) -> None:
    sign = "\t" if stated == "tab" else ";"
    (tmp_path / "t.csv").write_text(f"{header}\n{sign.join('12a')}\n{sign.join('34b')}\n")
    toml = tmp_path / "T.toml"
    lines_of = ['kind = "table"', 'data = "t.csv"', 'target = "y"', f'separator = "{stated}"' if stated else ""]
    toml.write_text("\n".join(lines_of))
    (come(tmp_path) / "new.csv").write_text(new)
    add_to(Place("T", tmp_path, tmp_path / "t.csv", True, toml), come(tmp_path))
    assert lines(tmp_path / "t.csv")[1:] == [sign.join(row) for row in ("12a", "34b", "56a")]


def test_what_is_there_is_not_added_again_but_counts_as_often_as_it_came(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,y\n1,no\n1,no\n")
    (come(tmp_path) / "one.csv").write_text("a,y\n1,no\n1,no\n1, no\n2,yes\n")
    (come(tmp_path) / "two.csv").write_text("a,y\n2,yes\n3,yes\n")
    add_to(table_place(tmp_path), come(tmp_path))
    assert lines(tmp_path / "t.csv")[3:] == ["1, no", "2,yes", "3,yes"]
    again = add_to(table_place(tmp_path), come(tmp_path))
    assert (again.files, len(lines(tmp_path / "t.csv"))) == (0, 6)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("x.csv", "a,z\n1,2\n", "has the columns a, z; expected a, y"),
        ("x.csv", "a,y\n1,no\n2\n", "x.csv, line 3: 1 values for 2 columns"),
        ("x.csv", "", "empty"),
        ("x.doc", "a,y\n1,no\n", "is no table"),
        ("x.csv", "a,y\n\udcff,no\n", "not CSV text"),
    ],
)
def test_what_is_no_such_table_changes_nothing(tmp_path: Path, name: str, text: str, why: str) -> None:
    (tmp_path / "t.csv").write_text("a,y\n1,no\n")
    (come(tmp_path) / "good.csv").write_text("a,y\n7,yes\n")
    (come(tmp_path) / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ImportRefused, match=why):
        add_to(table_place(tmp_path), come(tmp_path))
    assert lines(tmp_path / "t.csv") == ["a,y", "1,no"]


def test_a_fault_in_an_added_row_is_told_with_the_file_and_line_that_came(tmp_path: Path) -> None:
    old = '"a\nb",1,no\nx,2,yes'  # a cell of two lines, and no end of line
    (tmp_path / "t.csv").write_text(f"w,a,y\n{old}")
    (come(tmp_path) / "east").mkdir()
    (tmp_path / "came/east/one.csv").write_text('a,w,y\n2,x,yes\n5,"c\nd\ne",no\n')
    (tmp_path / "came/two.csv").write_text("w,a,y\n\nx,6,no\nx,old,yes\n")
    added = add_to(table_place(tmp_path), come(tmp_path))
    with pytest.raises(TrainerError) as fault:
        load_table(table_adding(ignore=["w"]), node(tmp_path))
    assert str(fault.value).startswith(f"{tmp_path / 't.csv'}, line 9: 'a' is 'old'")
    told = added.as_it_came(str(fault.value))
    assert told.startswith("two.csv, line 4: 'a' is 'old'; expected a number")
    assert isinstance(told, Text)  # so that it is told in the language of the page
    where = f"{tmp_path / 't.csv'}, line "
    assert added.as_it_came(f"{where}7 and {where}4") == f"east/one.csv, line 5 and {where}4"
    assert added.as_it_came(f"{where}10") == f"{where}10"


def test_a_fault_in_an_added_image_is_told_with_the_name_that_came(tmp_path: Path) -> None:
    class_folders(tmp_path / "pictures", each=2)
    (come(tmp_path) / "new" / "cat").mkdir(parents=True)
    whole = (tmp_path / "pictures/cat/000.png").read_bytes()
    (tmp_path / "came/new/cat/000.png").write_bytes(whole[:60] + bytes(20) + whole[80:])
    added = add_to(image_place(tmp_path), come(tmp_path))
    with pytest.raises(TrainerError, match=r"pictures/cat/000-1\.png cannot be read") as fault:
        load_images(images(), node(tmp_path))
    assert added.as_it_came(str(fault.value)).startswith("new/cat/000.png cannot be read")


def test_a_fault_in_imported_data_is_told_with_the_file_that_came(
    tmp_path: Path, table: Place, place: Place
) -> None:
    csv_file(tmp_path / "Mine 2026.csv", ["a", "y"], [[1, "no"], ["old", "yes"]])
    brought = bring_to(table, tmp_path / "Mine 2026.csv", GB)
    assert isinstance(brought, ImportedFolder)
    with pytest.raises(TrainerError) as fault:
        read_table(brought.place, table_adding())
    assert brought.as_it_came(str(fault.value)).startswith("Mine 2026.csv, line 3: 'a' is 'old'")
    folder = bring_to(place, class_folders(tmp_path / "pets", each=2), GB)
    assert isinstance(folder, ImportedFolder)
    assert folder.as_it_came(f"{place.path / 'cat' / '1.png'} cannot be read") == "cat/1.png cannot be read"


def test_old_rows_stay_on_their_side_and_no_test_row_is_trained_on(tmp_path: Path) -> None:
    own = table_adding(scale={"a": [0, 1], "b": [0, 1]})
    csv_file(tmp_path / "t.csv", HEADER, two_clouds(100))
    before = load_table(own, node(tmp_path)).sides
    csv_file(come(tmp_path) / "more.csv", HEADER, two_clouds(60, seed=7))
    add_to(table_place(tmp_path), come(tmp_path))
    after = load_table(own, node(tmp_path)).sides

    def rows(sides: object, side: str) -> set[tuple[float, ...]]:
        return {tuple(row) for row in sides[side][0].tolist()}  # type: ignore[index]

    for side in ("train", "validation", "test"):
        assert rows(before, side) <= rows(after, side)
    assert sum(len(y) for _, y in after.values()) == 160
    assert not rows(after, "train") & rows(after, "test")


def test_images_go_into_the_folders_of_their_classes(tmp_path: Path) -> None:
    class_folders(tmp_path / "pictures", each=25)
    before = load_images(images(), node(tmp_path)).info.rows
    came = come(tmp_path)
    save(came / "cat/new.png", picture(77, 0))
    save(came / "box/dog/000.png", picture(78, 1))  # of a name that is taken, with another picture
    (came / "dog").mkdir()
    (came / "dog/001.jpg").write_bytes((tmp_path / "pictures/dog/001.jpg").read_bytes())  # there already
    added = add_to(image_place(tmp_path), came)
    assert {path.name for path in added.made} == {"new.png", "000-1.png"}
    assert sum(load_images(images(), node(tmp_path)).info.rows.values()) == sum(before.values()) + 2
    assert add_to(image_place(tmp_path), came).files == 0
    added.undo()
    assert load_images(images(), node(tmp_path)).info.rows == before


def test_where_a_test_part_is_given_images_are_for_training(tmp_path: Path) -> None:
    for part in ("train", "test"):
        class_folders(tmp_path / "pictures" / part, each=3)
    save(come(tmp_path) / "cat/new.png", picture(77, 0))
    (new,) = add_to(image_place(tmp_path), come(tmp_path)).made
    assert new == tmp_path / "pictures/train/cat/new.png"


def described(tmp_path: Path, classes: str) -> Place:
    """The place of a trainer of images whose TOML file lists these classes, with one folder of images."""
    (tmp_path / "OWN.toml").write_text(f'kind = "images"\ndata = "pictures"\nclasses = {classes}\n', "utf-8")
    class_folders(tmp_path / "pictures", ["Blüten"], each=2)
    return place_of(TrainerFile("OWN", str(tmp_path / "OWN.toml"), place="pictures"), tmp_path)


def test_images_of_a_class_that_the_node_lacks_are_added(tmp_path: Path) -> None:
    place = described(tmp_path, '["Blüten", "Obst"]')
    save(come(tmp_path) / "Obst/new.png", picture(77, 0))
    added = add_to(place, come(tmp_path))
    assert (tmp_path / "pictures/Obst/new.png").is_file()
    added.undo()
    assert not (tmp_path / "pictures/Obst").exists()
    save(come(tmp_path) / "Holz/new.png", picture(78, 0))
    with pytest.raises(ImportRefused, match=r"expected one of Blüten, Obst$"):
        add_to(place, come(tmp_path))
    assert [path.name for path in (tmp_path / "pictures").iterdir()] == ["Blüten"]


def test_images_are_added_to_a_class_in_any_form_of_its_umlauts(tmp_path: Path) -> None:
    place = described(tmp_path, '["Blüten", "Obst"]')
    save(come(tmp_path) / unicodedata.normalize("NFD", "Blüten") / "new.png", picture(77, 0))
    (new,) = add_to(place, come(tmp_path)).made
    assert new == tmp_path / "pictures/Blüten/new.png"


def test_a_file_of_a_trainer_that_cannot_be_read_adds_nothing(tmp_path: Path) -> None:
    place = described(tmp_path, '"x"')
    save(come(tmp_path) / "Blüten/new.png", picture(77, 0))
    with pytest.raises(ImportRefused, match=r"OWN.toml, line 3: classes"):
        add_to(place, come(tmp_path))


def test_rows_are_added_whatever_the_form_of_their_umlauts(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("größe,y\n1,für\n", "utf-8")
    (come(tmp_path) / "more.csv").write_text(unicodedata.normalize("NFD", "y,größe\nfür,1\nfür,2\n"), "utf-8")
    add_to(table_place(tmp_path), come(tmp_path))
    assert lines(tmp_path / "t.csv") == ["größe,y", "1,für", "2,für"]


# A trainer that names its data in a file of options next to them: MULTI_LABEL


OPTIONS = b'file = "old.arff"\nlabel_columns = ["a"]\n'


def place_with_options(tmp_path: Path) -> Place:
    return place_of(TrainerFile("M", "m.py", place="multi", options="m.toml"), tmp_path / "data")


@pytest.mark.parametrize("folder", ["data", "data/multi"])
def test_an_import_without_options_keeps_those_that_are_there(tmp_path: Path, folder: str) -> None:
    place = place_with_options(tmp_path)
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "m.toml").write_bytes(OPTIONS)
    (tmp_path / "new.arff").write_bytes(b"new")
    with pytest.raises(
        DataThere, match="--replace on the command line, the tick on the page, or replace=true in a"
    ):
        bring_to(place, tmp_path / "new.arff", GB)
    before = contents(place.datasets)
    moved = bring_to(place, tmp_path / "new.arff", GB, replace=True)
    assert (moved.files, moved.size) == (1, 3)
    assert contents(place.path) == {"new.arff": b"new", "m.toml": OPTIONS}
    moved.undo()
    assert contents(place.datasets) == before


def test_options_that_come_with_the_data_are_used(tmp_path: Path) -> None:
    place = place_with_options(tmp_path)
    place.datasets.mkdir()
    (place.datasets / "m.toml").write_bytes(OPTIONS)
    given(Upload(place, GB, replace=True), ("m.toml", b"x = 1"), ("new.arff", b"new")).settle()
    assert contents(place.path) == {"new.arff": b"new", "m.toml": b"x = 1"}
    with pytest.raises(ImportRefused, match="no examples can be added to the data of M; import all of them anew"):
        Upload(place, GB, add=True)


def test_an_import_that_would_leave_data_unread_says_so(tmp_path: Path) -> None:
    place = place_with_options(tmp_path)
    place.datasets.mkdir()
    Upload(place, GB).discard()
    (place.datasets / "m.toml").write_bytes(OPTIONS)
    with pytest.raises(
        DataThere,
        match=r"reads the data that .*/data/m.toml is for; after this import it would read those in .*/data/multi only",
    ):
        Upload(place, GB)
    with pytest.raises(ImportRefused, match="no examples can be added"):
        Upload(place, GB, add=True)


@pytest.mark.parametrize(
    ("name", "cut", "why"),
    [
        ("new.png", 0, "does not lie in a folder of its class; expected one of cat, dog"),
        ("fox/new.png", 0, "does not lie in a folder of its class"),
        ("cat/new.txt", 0, "is no .jpg"),
        ("cat/new.png", 60, "is no whole image"),
        ("cat/new.jpg", 60, "is no whole image"),
    ],
)
def test_what_is_no_image_of_a_class_changes_nothing(tmp_path: Path, name: str, cut: int, why: str) -> None:
    class_folders(tmp_path / "pictures", each=2)
    bad, kind = come(tmp_path) / name, name.rsplit(".")[-1].replace("txt", "png")
    data = save(tmp_path / f"whole.{kind}", picture(5, 0)).read_bytes()
    bad.parent.mkdir(exist_ok=True)
    bad.write_bytes(data[: len(data) - cut])
    save(come(tmp_path) / "dog/good.png", picture(6, 1))
    with pytest.raises(ImportRefused, match=why):
        add_to(image_place(tmp_path), come(tmp_path))
    assert len([path for path in (tmp_path / "pictures").rglob("*") if path.is_file()]) == 4


def test_an_upload_adds_where_there_are_data_and_begins_them_where_there_are_none(tmp_path: Path) -> None:
    more = csv_file(tmp_path / "more.csv", HEADER, two_clouds(5))
    place = table_place(tmp_path / "data")
    assert bring_to(place, more, 1.0, add=True).files == 1
    with pytest.raises(DataThere):
        Upload(place, 1.0)
    csv_file(more, HEADER, two_clouds(8, seed=3))
    bring_to(place, more, 1.0, add=True)
    assert len(lines(place.path)) == 14
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["t.csv"]


def file(place: str) -> TrainerFile:
    return TrainerFile("X", "x.py", place=place)


def test_the_trainers_that_come_with_flnet_say_where_they_look() -> None:
    places = {found.id: found.place for found in find_trainers(load_settings({}, {}), every=True)}
    assert set(places.values()) == {
        *("", "chest_xray", "cifar10", "mnist", "mooc_kddcup2015.npz", "multi-label", "pictures")
    }
    assert (places["MNIST_3_7"], places["MOOC"], places["SMALL_DIGITS"]) == ("mnist", "mooc_kddcup2015.npz", "")


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
    with pytest.raises(DataThere, match="replace=true"):
        bring_to(place, save(tmp_path / "new.png", picture(5, 0)), GB, replace=True)

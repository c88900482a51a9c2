"""Further examples: added to what is there, once, without touching it; or refused, and nothing has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from flnet.training.adding import add_to
from flnet.training.importing import Upload, bring_to
from flnet.training.own_images import load_images
from flnet.training.own_table import load_table
from flnet.training.places import DataThere, ImportRefused, Place
from tests.training.own_files import class_folders, csv_file, images, node, picture, save, table, two_clouds

HEADER = ["a", "b", "y"]


def table_place(folder: Path) -> Place:
    return Place("T", folder, folder / "t.csv", is_file=True)


def image_place(folder: Path) -> Place:
    return Place("P", folder, folder / "pictures", is_file=False)


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


def test_old_rows_stay_on_their_side_and_no_test_row_is_trained_on(tmp_path: Path) -> None:
    own = table(scale={"a": [0, 1], "b": [0, 1]})
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
    place = Place("T", tmp_path / "data", tmp_path / "data/t.csv", is_file=True)
    assert bring_to(place, more, 1.0, add=True).files == 1
    with pytest.raises(DataThere):
        Upload(place, 1.0)
    csv_file(more, HEADER, two_clouds(8, seed=3))
    bring_to(place, more, 1.0, add=True)
    assert len(lines(place.path)) == 14
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["t.csv"]

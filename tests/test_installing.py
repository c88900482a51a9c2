"""Commands that install an extra name what works where flnet came from."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import NoReturn

import pytest

from flnet import installing
from flnet.installing import DISTRIBUTION, install, origin


class Installed:
    """A distribution that says where it came from."""

    def __init__(self, stated: str | None) -> None:
        self._stated = stated

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self._stated


def came_from(monkeypatch: pytest.MonkeyPatch, stated: str | None, image: Path) -> str:
    monkeypatch.setattr(installing, "distribution", lambda name: Installed(stated))
    monkeypatch.setattr(installing, "_IMAGE", image)
    monkeypatch.setattr(installing, "_AROUND", image.parent / "nothing")
    install.cache_clear()
    try:
        return install("torch")
    finally:
        install.cache_clear()


def test_an_extra_is_installed_from_where_flnet_came_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nowhere = tmp_path / "no-image"
    wheel = tmp_path / "flnet_mesh-0.1.0-py3-none-any.whl"
    wheel.touch()
    for place in (tmp_path, wheel):
        stated = json.dumps({"url": place.as_uri(), "dir_info": {}})
        assert came_from(monkeypatch, stated, nowhere) == f'pip install "{place}[torch]"'
    index = f'pip install "{DISTRIBUTION}[torch]"'
    gone, far = (tmp_path / "gone").as_uri(), "https://example.org/a.whl"
    for other in (None, "{}", "nonsense", json.dumps({"url": gone}), json.dumps({"url": far})):
        assert came_from(monkeypatch, other, nowhere) == index


def test_in_an_image_a_new_image_is_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    command = came_from(monkeypatch, json.dumps({"url": "file:///src"}), tmp_path)
    assert command == "docker build --build-arg EXTRAS=torch ."


def test_a_copy_that_was_never_installed_came_from_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> NoReturn:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installing, "distribution", missing)
    monkeypatch.setattr(installing, "_AROUND", Path("/nowhere"))
    assert origin() is None


def test_what_is_imported_from_a_clone_is_installed_from_it() -> None:
    assert origin() == Path(installing.__file__).parents[1]


def test_no_message_names_the_program_that_is_called_flnet_on_the_public_index() -> None:
    root = Path(__file__).parents[1]
    code = [path for folder in ("flnet", "trainers") for path in (root / folder).rglob("*.py")]
    texts = [*code, *root.glob("docs/*.md"), root / "README.md"]
    assert [path.name for path in texts if "install flnet" in path.read_text("utf-8")] == []
    assert [path.name for path in texts if "flnet[" in path.read_text("utf-8")] == []

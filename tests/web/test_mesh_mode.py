from __future__ import annotations

from typing import get_args

import pytest

from flnet.web.mesh_mode import MODES, mesh_mode
from flnet.web.schemas.models import InfoView
from flnet.web.words import translate


@pytest.mark.parametrize("name", get_args(InfoView.model_fields["mode"].annotation))
def test_every_way_to_run_is_explained_in_both_languages(name: str) -> None:
    mode = mesh_mode(name)
    for text in (mode.name, mode.means, mode.hides):
        assert text and translate("es", text) != text


def test_only_the_open_one_warns() -> None:
    assert [name for name, mode in MODES.items() if mode.chip == "warn"] == ["open"]

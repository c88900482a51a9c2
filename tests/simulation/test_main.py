"""`python -m flnet.simulation`."""

from __future__ import annotations

import pytest

from flnet.simulation.__main__ import main


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--replay", "3", "--nodes", "2", "--actions", "none", "--mild", "delay,duplicate"]) == 0
    assert "nothing is broken" in capsys.readouterr().out
    assert main(["--schedules", "1", "--seed", "9"]) == 0
    assert "1 of 1 schedules" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--replay", "3", "--mild", "sunshine"])

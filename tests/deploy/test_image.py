"""The image, where Docker is there: it is built, and trains the four trainers of the thesis on small data."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
IMAGE = "flnet:tested"
TRAINERS = ("MNIST", "CHEST_X_RAY_PNEUMONIA", "CIFAR10", "MULTI_LABEL")
# As docker-compose.yml runs it, and without a network.
RIGHTS = "--init --read-only --tmpfs /tmp:mode=1777 --cap-drop ALL --security-opt no-new-privileges --network none"


def has_docker() -> bool:
    """Whether a Docker engine answers here."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not has_docker(), reason="needs a Docker engine that answers"),
]


def small_data(folder: Path) -> None:
    """Data of the four trainers in the forms that people bring: arrays, JPEG files in folders, a table."""
    draw = np.random.default_rng(0)
    digits, labels = draw.integers(0, 256, (400, 28, 28), np.uint8), np.arange(400, dtype=np.uint8) % 10
    np.savez(folder / "mnist.npz", x_train=digits, y_train=labels, x_test=digits[:100], y_test=labels[:100])
    photographs = draw.integers(0, 256, (400, 32, 32, 3), np.uint8)
    np.savez(
        folder / "cifar10.npz", x_train=photographs, y_train=labels, x_test=photographs[:100], y_test=labels[:100]
    )
    for part, count in (("train", 40), ("val", 4), ("test", 8)):
        x_rays(folder / "chest_xray" / part, count, draw)
    table = draw.normal(size=(200, 6)).round(3)
    lines = [",".join(map(str, (*row, *(1 * (row[:3] > 0))))) for row in table.tolist() for row in [np.array(row)]]
    (folder / "multi-label").mkdir()
    (folder / "multi-label" / "small.csv").write_text("\n".join(["a,b,c,d,e,f,one,two,three", *lines]))
    (folder / "multi-label" / "multi_label.toml").write_text('label_columns = ["one", "two", "three"]\n')


def x_rays(folder: Path, count: int, draw: np.random.Generator) -> None:
    """Pictures of as many patients of each kind, named as the published ones are."""
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    for kind, name in (("NORMAL", "IM-{:04}-0001.jpeg"), ("PNEUMONIA", "person{}_virus_1.jpeg")):
        (folder / kind).mkdir(parents=True)
        for number in range(count):
            pixels = draw.integers(0, 256, (80, 96), np.uint8)
            image.fromarray(pixels).save(folder / kind / name.format(number))


def docker(*arguments: str) -> str:
    """What a docker command says; it must succeed."""
    answer = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout[-3000:] + answer.stderr[-3000:]
    return answer.stdout + answer.stderr


@pytest.fixture(scope="module", params=["default", "slim"])
def image(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    target = str(request.param)
    tag = f"{IMAGE}-{target}"
    docker("build", "--target", target, "--tag", tag, str(ROOT))
    yield target, tag
    docker("image", "rm", "--force", tag)


@pytest.mark.parametrize("trainer", [*TRAINERS, "MNIST_3_7"])
def test_two_nodes_of_the_image_train_a_round(image: tuple[str, str], trainer: str, tmp_path: Path) -> None:
    target, tag = image
    if target == "slim" and trainer in TRAINERS:
        pytest.skip("the slim image has no framework")
    small_data(tmp_path)
    demo = ["demo", "--nodes", "2", "--rounds", "1", "--trainer", trainer, "--exit"]
    said = docker("run", "--rm", *RIGHTS.split(), "--volume", f"{tmp_path}:/data:ro", tag, *demo)
    assert "2 of 2" in said


def test_a_container_becomes_healthy_by_itself(image: tuple[str, str]) -> None:
    _, tag = image
    container = docker("run", "--detach", *RIGHTS.split(), tag).strip()
    try:
        state = ["inspect", "--format", "{{.State.Health.Status}}", container]
        while (health := docker(*state).strip()) == "starting":
            time.sleep(1)
        assert health == "healthy"
    finally:
        docker("rm", "--force", "--volumes", container)

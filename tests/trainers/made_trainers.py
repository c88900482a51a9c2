"""Trainers in PyTorch and numpy with a few rows each, as a node makes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flnet.trainer import Trainer, TrainerSettings
from tests.datasets.own_files import class_folders, csv_file, images, table, two_clouds
from tests.datasets.own_files import node as own_node
from tests.trainers.domain_files import written as write_domains
from tests.trainers.mooc_files import write_data as write_enrolments
from tests.trainers.test_chest_subtypes import write_data as write_xrays
from tests.trainers.test_multi_label import write_data as write_labels
from trainers import CHEST_SUBTYPES, DIGIT_DOMAINS, MNIST, MNIST_3_7, MOOC, MULTI_LABEL
from trainers._own import make_own


def made(name: str, folder: Path) -> Trainer:
    """A shipped trainer by its id, or one without code: "images", "table", "number"."""
    told = TrainerSettings(folder, folder / "state", (1, 4))
    told.state_path.mkdir()
    match name:
        case "MNIST":
            return MNIST.make_trainer(replace(told, datasets_path=None, shard=(1, 12)))
        case "MNIST_3_7":
            return MNIST_3_7.make_trainer(replace(told, datasets_path=None))
        case "MOOC":
            write_enrolments(folder)
            return MOOC.make_trainer(told)
        case "MULTI_LABEL":
            write_labels(folder)
            return MULTI_LABEL.make_trainer(replace(told, shard=(1, 2)))
        case "CHEST_SUBTYPES":
            return CHEST_SUBTYPES.make_trainer(replace(told, datasets_path=write_xrays(folder), shard=(1, 1)))
        case "DIGIT_DOMAINS":
            domains = write_domains(folder, "rows = 12\ntests = 4\n")
            return DIGIT_DOMAINS.make_trainer(replace(told, datasets_path=domains))
        case "images":
            class_folders(folder / "pictures", each=20)
            return make_own(images(), own_node(folder))
        case "table":
            csv_file(folder / "t.csv", ["a", "b", "y"], two_clouds())
            return make_own(table(), own_node(folder))
    assert name == "number"
    csv_file(folder / "t.csv", ["a", "b", "y"], [[str(i), str(i % 7), str(3.0 * i)] for i in range(60)])
    return make_own(table(task="regress", target_scale=[90.0, 50.0]), own_node(folder))

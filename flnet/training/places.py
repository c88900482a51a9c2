"""Where the data of each trainer lie, and how data that are brought there are refused."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from flnet.errors import PeerError
from flnet.training.api import TrainerFile

_FILES = (".csv", ".tsv", ".txt", ".parquet")  # a place that ends so is a file


class ImportRefused(PeerError):
    """Data that are not safe to take in, too many, or not what the trainer reads."""

    code = "import_refused"


class DataThere(PeerError):
    """The trainer has data in that place already; they are replaced on request only."""

    status = 409
    code = "data_there"


class NoRoom(PeerError):
    """The disk has no room for what is brought."""

    status = 507
    code = "no_room"


@dataclass(frozen=True)
class Place:
    """Where a trainer looks for its data: a folder, or one file (`is_file`)."""

    trainer: str
    datasets: Path
    path: Path
    is_file: bool

    def must_be_free(self) -> None:
        """Refuse what would come over data that are there.

        Raises:
            DataThere: there are data.
        """
        if self.path.is_symlink() or self.path.exists():
            raise DataThere(
                f"{self.trainer} has data in {self.path} already; with replace=true these take their place, "
                "and the old ones are kept aside"
            )


def place_of(file: TrainerFile, datasets: Path | None) -> Place:
    """Where data for this trainer go.

    Raises:
        ImportRefused: nobody said where, or it is not below the folder of data sets.
    """
    if datasets is None:
        raise ImportRefused("this node has no folder of data sets; set FLNET_DATASETS_PATH and start it again")
    if not file.place:
        raise ImportRefused(f"{file.id} does not say where it looks for data (DATA_PLACE); put them there by hand")
    root = datasets.resolve()
    path = Path(os.path.normpath(root / Path(file.place).expanduser()))
    if root not in path.parents:
        raise ImportRefused(f"{file.id} reads {path}, which is not below {datasets}; put the data there by hand")
    return Place(file.id, root, path, is_file=path.suffix.lower() in _FILES)

"""No-code trainers that come while a node runs: made from data that a person brings, or taken over from another node.

A description is data of a few lines, never code. What other nodes show is asked for only when a person looks, and
nothing of it has an effect before a person of this node accepts it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from flnet.compute.assignment import assignment
from flnet.compute.loader import own_data, own_trainer, own_trainers_folder
from flnet.datasets.dataset_import import ImportedFolder, Place, Upload, place_of
from flnet.datasets.guess import HERE, Choices, Guess, TableGuess, described, guess, guess_table, stated
from flnet.datasets.no_code import (
    OwnImages,
    OwnTable,
    check_trainer_id,
    checked_own,
    is_trainer_id,
    read_own,
    toml_of,
    write_own,
)
from flnet.errors import FlnetError, ImportRefused, InvalidMessage, TransportError
from flnet.fingerprints import short
from flnet.node.core import NodeCore
from flnet.params.params import TrainerId
from flnet.settings import Settings
from flnet.temporary import temporary_folder
from flnet.text import text
from flnet.trainer import TrainerFile
from flnet.wire.transport import Transport

PATH = "/trainers/offered"
MOST_DRAFTS = 4  # data that wait for a person; the oldest ones go first
MOST_OFFERS = 20  # of one node
MOST_ASKED = 60  # nodes
OFFER_BYTES = 64 * 1024  # of one description, as JSON
ANSWER_BYTES = 512 * 1024
SECONDS = 2.0  # a page should not wait longer for a peer
MOST_WEIGHTS = 5_000_000  # of a network that another node proposes
_ASKED = ("alive", "suspect")
Described = OwnImages | OwnTable
View = Mapping[str, Any]


@dataclass(frozen=True)
class Draft:
    """Data that wait for a person to say what they are.

    Attributes:
        key: by which the draft is found; cannot be guessed.
        name: a free id for the trainer.
        file: what came, as a person called it.
        place: where it waits.
    """

    key: str
    name: str
    file: str
    place: Path
    guess: Guess
    upload: Upload


@dataclass(frozen=True)
class Offer:
    """A trainer that another node shows, checked.

    Attributes:
        own: its description; `data` says nothing.
        digest: of the description, so that what is taken over is what was shown.
    """

    peer: str
    name: str
    own: Described
    digest: str

    @property
    def lines(self) -> str:
        """The description as it would stand in a file here."""
        return toml_of(self.own).replace(f'data = "{self.own.data}"\n', "")


class OwnTrainers:
    """Makes no-code trainers, and adds them to the node that runs."""

    def __init__(
        self,
        core: NodeCore,
        settings: Settings,
        files: dict[TrainerId, TrainerFile],
        transport: Transport,
        peers: Callable[[], Sequence[View]],
        start: Callable[[TrainerFile], None],
    ) -> None:
        """Args:
        files: the trainers of this node, by id; new ones are added.
        peers: the other nodes, as this one knows them.
        start: begins the job of a new trainer.
        """
        self._core, self._settings, self._files = core, settings, files
        self._transport, self._peers, self._start = transport, peers, start
        self._drafts: OrderedDict[str, Draft] = OrderedDict()
        self._making = asyncio.Lock()
        self._datasets = settings.datasets_path or settings.folder / "own-data"

    def begin(self) -> Upload:
        """Open an upload of data for a trainer that does not exist yet; pass it to `look`, or discard it.

        Raises:
            ImportRefused, NoRoom: nothing can be written here.
        """
        root = self._datasets.resolve()
        return Upload(
            Place("", root, root / "new", is_file=False), self._settings.max_import_gigabytes, replace=True
        )

    async def look(self, upload: Upload) -> Draft:
        """Guess what came, and keep it until a person has said more.

        Raises:
            ImportRefused: it is neither a table nor a folder of pictures; it is gone.
        """
        try:
            place = await asyncio.to_thread(upload.inside)
            guessed = await asyncio.to_thread(guess, place)
        except BaseException as exc:
            await asyncio.to_thread(upload.discard)
            if isinstance(exc, FlnetError):
                raise ImportRefused(exc.message) from exc
            raise
        draft = Draft(secrets.token_urlsafe(12), self._free_name(upload.name), upload.name, place, guessed, upload)
        self._drafts[draft.key] = draft
        while len(self._drafts) > MOST_DRAFTS:
            _, old = self._drafts.popitem(last=False)
            await asyncio.to_thread(old.upload.discard)
        return draft

    def draft(self, key: str) -> Draft:
        """The draft of this key.

        Raises:
            ImportRefused: there is none, or not any more.
        """
        if key not in self._drafts:
            raise ImportRefused(text("these data are not waiting any more; choose them again"))
        return self._drafts[key]

    async def make(self, key: str, name: str, choices: Choices, *, offered: bool) -> TrainerId:
        """Make a trainer of a draft, move its data into their place, and start its job.

        Args:
            offered: whether other nodes are shown the description.

        Raises:
            ImportRefused, InvalidMessage, DataThere, NoRoom: nothing has changed; says why.
        """
        draft = self.draft(key)
        async with self._making:
            self._check_name(name)
            place, data = self._place(name, draft.place.suffix if isinstance(draft.guess, TableGuess) else "")
            own = described(draft.guess, choices, data)
            own = own.model_copy(update={"offered": True}) if offered else own
            await asyncio.to_thread(self._prove, own, draft.place, draft.file)
            trainer = await asyncio.to_thread(self._write, name, own, place, draft.upload)
            del self._drafts[key]
            return self._begin(trainer)

    async def take_over(self, peer: str, name: str, digest: str, upload: Upload | None) -> TrainerId:
        """Make a trainer of the description that another node shows, with this node's own data.

        Args:
            digest: of the description that the person has seen.
            upload: the data; None if they come later.

        Raises:
            ImportRefused, InvalidMessage, DataThere, NoRoom: nothing has changed; says why.
        """
        try:
            async with self._making:
                self._check_name(name)
                shown = next((o for o in await self.offers() if (o.peer, o.name) == (peer, name)), None)
                if shown is None or shown.digest != digest:
                    raise ImportRefused(text("{peer} does not show this trainer any more; look again", peer))
                came = None if upload is None else await asyncio.to_thread(upload.inside)
                is_table = isinstance(shown.own, OwnTable)
                place, data = self._place(name, (came.suffix if came else ".csv") if is_table else "")
                own = await asyncio.to_thread(_as_here, shown.own, came, data)
                if came is not None:
                    await asyncio.to_thread(self._prove, own, came, came.name)
                return self._begin(await asyncio.to_thread(self._write, name, own, place, upload))
        finally:
            if upload is not None:
                await asyncio.to_thread(upload.discard)

    async def offered(self) -> Sequence[View]:
        """The descriptions that this node shows to others: [{id, description}]."""
        paths = [Path(file.location) for file in self._files.values() if file.location.endswith(".toml")]
        return await asyncio.to_thread(_offered_in, sorted(paths))

    async def offers(self) -> Sequence[Offer]:
        """What the other nodes show and this node does not have; each of them is asked now."""
        asked = [peer for peer in self._peers() if peer["state"] in _ASKED][:MOST_ASKED]
        answers = await asyncio.gather(*map(self._ask, asked))
        return [offer for answer in answers for offer in answer if not self._is_taken(offer.name)]

    async def _ask(self, peer: View) -> Sequence[Offer]:
        try:
            async with asyncio.timeout(SECONDS):
                reply = await self._transport.fetch(peer["address"], PATH, ANSWER_BYTES)
        except (TimeoutError, TransportError):
            return ()
        if reply.status != 200 or (reply.signer is not None and short(reply.signer) != peer["fingerprint"]):
            return ()
        return await asyncio.to_thread(read_offers, str(peer["id"]), reply.body)

    async def close(self) -> None:
        """Remove the data that still wait for a person."""
        for draft in self._drafts.values():
            await asyncio.to_thread(draft.upload.discard)
        self._drafts.clear()

    def _free_name(self, came: str) -> str:
        stem = re.sub(r"\.(csv|tsv|txt|parquet|pq|arff|zip|tar|tgz|tar\.\w+)$", "", came, flags=re.IGNORECASE)
        base = re.sub(r"\W+", "_", stem, flags=re.ASCII).strip("_").upper()[:50] or "NEW"
        names = (base, *(f"{base}_{number}" for number in range(2, 1000)))
        return next((name for name in names if not self._is_taken(name)), "")

    def _is_taken(self, name: str) -> bool:
        folder = own_trainers_folder(self._settings)
        return name in self._files or name in self._core.jobs or (folder / f"{name}.toml").exists()

    def _check_name(self, name: str) -> None:
        check_trainer_id(name)
        if self._is_taken(name):
            raise ImportRefused(text("there is a trainer {name} already; choose another name", name))

    def _place(self, name: str, suffix: str) -> tuple[Place, str]:
        """Where the data of a new trainer go, and how its file says that."""
        inside = f"{name.lower()}{suffix.lower()}"
        data = inside if self._settings.datasets_path is not None else str(self._datasets.resolve() / inside)
        place = place_of(TrainerFile(name, "", place=data), self._datasets)
        place.must_be_free()
        return place, data

    def _prove(self, own: Described, came: Path, name: str) -> None:
        """Read a table once as the trainer will; pictures, which take long, are read by the trainer.

        Raises:
            ImportRefused: it cannot be read so.
        """
        if not isinstance(own, OwnTable):
            return
        with temporary_folder("trainer") as state:
            settings = self._settings.model_copy(update={"state_path": state})
            given = assignment(settings, TrainerFile("NEW", "")).settings
            try:
                own_data(own.model_copy(update={"data": str(came)}), given)
            except FlnetError as exc:
                raise ImportRefused(ImportedFolder(came, 1, 0, None, name).as_it_came(exc.message)) from exc

    def _write(self, name: str, own: Described, place: Place, upload: Upload | None) -> TrainerFile:
        """Move the data into their place, and write the file."""
        if upload is not None:
            upload.place = place
        moved = upload.settle() if upload is not None else None
        try:
            return own_trainer(write_own(own_trainers_folder(self._settings), name, own))
        except BaseException:
            if moved is not None:
                moved.undo()
            raise

    def _begin(self, file: TrainerFile) -> TrainerId:
        trainer = TrainerId(file.id)
        self._files[trainer] = file
        self._start(file)
        return trainer


def read_offers(peer: str, body: bytes) -> Sequence[Offer]:
    """The trainers in a peer's answer, which may say anything; what is not sound is left out."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return ()
    listed = answer.get("trainers") if isinstance(answer, dict) else None
    offers: dict[str, Offer] = {}
    for entry in (listed if isinstance(listed, list) else [])[:MOST_OFFERS]:
        offer = _offer(peer, entry)
        if offer is not None:
            offers.setdefault(offer.name, offer)
    return list(offers.values())


def _offer(peer: str, entry: Any) -> Offer | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("description"), dict):
        return None
    name, fields = entry.get("id"), entry["description"]
    if not isinstance(name, str) or not is_trainer_id(name) or not fields.keys().isdisjoint(HERE):
        return None
    if len(json.dumps(fields)) > OFFER_BYTES:  # before it is checked, which takes longer the longer it is
        return None
    try:
        own = checked_own({**fields, "data": name.lower()})
    except (InvalidMessage, RecursionError):
        return None
    plain = json.dumps(stated(own), sort_keys=True).encode()
    if not isinstance(own, OwnImages | OwnTable) or len(plain) > OFFER_BYTES or _weights(own) > MOST_WEIGHTS:
        return None
    return Offer(peer, name, own, hashlib.sha256(plain).hexdigest())


def _weights(own: Described) -> int:
    """About how many weights the network has, as far as its description tells."""
    if isinstance(own, OwnImages):
        return own.size**2 * 3 * len(own.classes or ()) if own.model == "linear" else own.size**2 * 64
    widths = [len(own.inputs(own.features or sorted(own.categories))), *own.hidden, len(own.classes or ())]
    return sum(one * other for one, other in pairwise(widths)) if own.model == "mlp" else 0


def _offered_in(paths: Sequence[Path]) -> list[View]:
    shown: list[View] = []
    for path in paths:
        try:
            own = read_own(path)
        except FlnetError:  # its card says what is wrong
            continue
        fields: Mapping[str, Any] = stated(own)
        if own.offered and len(json.dumps(fields)) <= OFFER_BYTES:
            shown.append({"id": path.stem, "description": fields})
    return shown[:MOST_OFFERS]


def _as_here(own: Described, came: Path | None, data: str) -> Described:
    """A description of another node for the data of this one: how a file is written is each node's own business.

    Raises:
        ImportRefused: the file is no table.
    """
    here: dict[str, Any] = {"data": data}
    if isinstance(own, OwnTable) and came is not None:
        try:
            guessed = guess_table(came)
        except FlnetError as exc:
            raise ImportRefused(exc.message) from exc
        odd = {word for column in guessed.columns if column.name not in own.categories for word in column.odd}
        here |= {"separator": guessed.separator, "decimal": guessed.decimal}
        here |= {"no_value": sorted({*own.no_value, *odd})} if odd else {}
        here |= {"missing": "mean"} if odd and own.missing == "stop" else {}
    return own.model_copy(update=here)

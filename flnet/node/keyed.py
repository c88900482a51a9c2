"""What a node of a mesh with a key needs: the secret, what signs, and what checks signatures."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from flnet.errors import SettingsError, StartError
from flnet.settings import PREFIX, Settings
from flnet.signing import Gate, MeshKey, NodeKey, Seal

SHORTEST, LONGEST = 16, 1024  # characters of the secret
MAX_FILE_BYTES = 64 * 1024


class Signing(NamedTuple):
    """The two sides of signed exchanges, and the key of the node itself."""

    seal: Seal
    gate: Gate
    node: NodeKey


def signing_of(settings: Settings, folder: Path) -> Signing | None:
    """What signs and checks as the settings say; None for a mesh without a key.

    Args:
        folder: where the node's own key is.

    Raises:
        SettingsError: the key of the mesh is too short, or too long.
        StartError: a key cannot be read.
    """
    if settings.mode != "keyed":
        return None
    from flnet.keys.signer import load_signer  # noqa: PLC0415 - it takes nine megabytes, which an open mesh saves

    return made_of(load_signer(folder), MeshKey(secret_of(settings)))


def made_of(node: NodeKey, mesh: MeshKey | None, trusts: Callable[[str], bool] | None = None) -> Signing:
    """The two sides for these keys, as for a node that starts now.

    Args:
        mesh: the key that all nodes share; None in a pinned mesh.
        trusts: whether the node with this public key may be asked; None: any.
    """
    seal = Seal(node, mesh, secrets.token_hex(8), trusts)
    return Signing(seal, Gate(node, mesh, lambda: secrets.token_hex(16)), node)


def secret_of(settings: Settings) -> str:
    """The key that all nodes of the mesh share: of the settings, or of the file that they name.

    Raises:
        SettingsError: it is too short, or too long.
        StartError: the file cannot be read.
    """
    secret = settings.mesh_key
    if secret is None:
        assert settings.mesh_key_file is not None  # the settings see to that
        try:
            with settings.mesh_key_file.open("rb") as file:
                secret = file.read(MAX_FILE_BYTES).decode().strip()
        except (OSError, UnicodeDecodeError) as exc:
            words = exc.strerror if isinstance(exc, OSError) else "it is no text"
            raise StartError(f"the key of the mesh in {settings.mesh_key_file} cannot be read: {words}") from exc
    if not SHORTEST <= len(secret) <= LONGEST:
        raise SettingsError(
            f"the key of the mesh has {len(secret)} characters; {PREFIX}MESH_KEY takes {SHORTEST} to {LONGEST} "
            "(openssl rand -base64 32 makes a good one)"
        )
    return secret

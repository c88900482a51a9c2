"""What a node adds to the common model to have one of its own.

R. Martínez Enríquez et al., "Análise de estratexias de aprendizaxe federada robustas a datos heteroxéneos"
(FLProtector), CiTIUS, Universidade de Santiago de Compostela: after each average, a second local training begins
with common model plus increment, and what it ends with, less the common model, is the next increment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from flnet.params import Array


def raised(
    common: Mapping[str, Array], increment: Mapping[str, Array], kept: Collection[str] = ()
) -> dict[str, Array]:
    """The local model: common + increment.

    Args:
        kept: arrays that the increment holds whole and not as a difference: running variances, say, which may not
            become negative when the common ones fall. Arrays without an increment are the common ones.
    """
    found = dict(common)
    for name, change in increment.items():
        found[name] = change if name in kept else common[name] + change
    return found


def increment_of(
    local: Mapping[str, Array], common: Mapping[str, Array], names: Collection[str], kept: Collection[str] = ()
) -> dict[str, Array]:
    """The increment that makes this local model of the common one, for the arrays of these names."""
    return {name: local[name] if name in kept else local[name] - common[name] for name in names}

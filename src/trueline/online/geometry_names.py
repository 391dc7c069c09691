"""The geometries by name, and a user's own made ready for the loop."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from ..errors import UsageError, nearest
from ..objective.named_function import COMPILED
from ..objective.user_functions import Functions, can_compile
from .exponentiated_gradient import Mirrored, Multiplicative, OwnGeometry, SignedMultiplicative
from .geometries import Adaptive, Additive, Geometry, Implicit, Normalised

GEOMETRIES: dict[str, Any] = {
    cls.name: cls for cls in (Additive, Normalised, Implicit, Adaptive, Multiplicative, SignedMultiplicative)
}
MIRROR = {"weight": 2, "mass": 1, "conjugate": 1, "divergence": 0}  # the methods of a mirror map, and numbers they take
WHOLE = ("weight", "mass", "height", "step", "slope", "move", "excess", "conjugate", "divergence")


def resolve_geometry(given: Any, **fields: float) -> Geometry:
    """The geometry of this name, a geometry itself, or a user's own: a mirror map, or a whole geometry with ``move``.

    >>> resolve_geometry("signed", radius=4)
    SignedMultiplicative(radius=4.0)
    """
    if isinstance(given, str):
        if given not in GEOMETRIES:
            raise UsageError(f"there is no geometry named {given!r}{nearest(given, GEOMETRIES)}", where="geometry")
        given = GEOMETRIES[given]
    if given in GEOMETRIES.values():
        radius = fields.get("radius", 1.0)
        if not (isinstance(radius, Real) and 0.0 < radius < math.inf):
            raise UsageError(f"radius must be above 0, not {radius!r}", where="radius")
        return given(**{name: float(value) for name, value in fields.items()})  # type: ignore[no-any-return]
    if isinstance(given, Geometry):
        return given
    if isinstance(given, type) and issubclass(given, tuple):
        given = given(**fields)
    whole = hasattr(given, "move")
    needed = WHOLE if whole else tuple(MIRROR)
    missing = [name for name in needed if not callable(getattr(given, name, None))]
    if missing or not isinstance(given, tuple) or not getattr(given, "_fields", ()):
        lack = f"it lacks {', '.join(missing)}" if missing else "it is not a NamedTuple with at least one field"
        raise UsageError(
            f"{given!r} cannot serve as a geometry: {lack}; give one of {', '.join(GEOMETRIES)} or a NamedTuple with "
            f"the methods {', '.join(needed)}",
            where="geometry",
        )
    made: Any = type(given)
    given = made(*(float(v) if isinstance(v, Real) else v for v in given))
    if whole:
        return OwnGeometry(given)
    find = Functions(given, "geometry", MIRROR).find if COMPILED and can_compile(given, "geometry") else None
    return Mirrored(given, resolve_geometry, find)

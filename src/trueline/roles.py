"""The roles that a part can play, and the conventions, stated once.

Conventions
-----------
A. Example: row x, target y, weight c. Score s = w·x + b. The intercept b is never penalised.
B. Binary targets are −1 and +1 inside; the doors map what users give (0/1, booleans, any two labels).
C. A batch objective is the *weighted mean* of the loss plus the penalty, unless an estimator shares its
   name with scikit-learn's, whose parameters then mean what they mean there.
D. ``Squared.value`` is ½(s − y)²; certificates and tables print (s − y)², without the half.
E. Online, loss is counted before the update; the intercept is a constant column inside x.
F. A part is a NamedTuple of floats (at least one field: Numba cannot compile an empty one) with small pure
   methods on scalars. Its fields are its hyper-parameters; state lives elsewhere. Compiled code and plain
   Python run the same methods. Class attributes (no annotation) describe the part to the doors; kernels
   never read them.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, runtime_checkable


@runtime_checkable
class Loss(Protocol):
    """V(y, s), convex in the score s.

    Class attributes: ``targets`` is "real", "sign", "nonnegative" or "positive"; ``smooth`` says that the
    curvature exists and is continuous enough for Newton's method; ``lipschitz`` that |slope| is bounded.
    """

    targets: ClassVar[str]
    smooth: ClassVar[bool]

    def value(self, score: float, y: float) -> float:
        """The loss."""
        ...

    def slope(self, score: float, y: float) -> float:
        """Its derivative (or a subgradient) in the score."""
        ...

    def curvature(self, score: float, y: float) -> float:
        """Its second derivative in the score; 0 where it does not exist."""
        ...

    def curvature_bound(self) -> float:
        """The largest curvature at any score, or infinity."""
        ...

    def conjugate(self, slope: float, y: float) -> float:
        """sup over s of slope·s − V(y, s); infinity outside its domain."""
        ...

    def slope_range(self, y: float) -> tuple[float, float]:
        """The closed interval of slopes on which the conjugate is finite."""
        ...

    def mean(self, score: float) -> float:
        """The prediction on the target's scale (the inverse link): s, a probability of +1, exp(s)."""
        ...


@runtime_checkable
class Penalty(Protocol):
    """A convex, separable penalty on the coefficients; ``weight`` scales it per coefficient."""

    def value(self, w: float, weight: float) -> float:
        """The penalty of one coefficient."""
        ...

    def prox(self, w: float, step: float, weight: float) -> float:
        """argmin over v of ½(v − w)² + step·penalty(v)."""
        ...

    def conjugate(self, z: float, weight: float) -> float:
        """sup over w of z·w − penalty(w); infinity outside its domain."""
        ...


@runtime_checkable
class Rows(Protocol):
    """A layout of examples: dense, sparse or sliding. Row i is read in place, never copied."""

    def dot(self, i: int, w: Any) -> float:
        """x_i · w."""
        ...

    def add(self, i: int, scale: float, w: Any) -> None:
        """w += scale · x_i, in place."""
        ...

    def norm2(self, i: int) -> float:
        """‖x_i‖²."""
        ...

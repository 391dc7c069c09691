"""The roles that a part can play, and the conventions, stated once.

Conventions
-----------
A. Example: row x, target y, weight c. Score s = w·x + b. The intercept b is never penalised.
B. Binary targets are −1 and +1 inside; the doors map what users give (0/1, booleans, any two labels).
C. A batch objective is the *weighted mean* of the loss plus the penalty, unless an estimator shares its
   name with scikit-learn's, whose parameters then mean what they mean there.
D. ``Squared.value`` is ½(s − y)²; certificates and tables print (s − y)², without the half.
E. Online, loss is counted before the update; the intercept is a constant column inside x.
F. A user's own part is a NamedTuple with small pure methods on scalars. Its fields are its hyper-parameters; state
   lives elsewhere. Built-in parts are extension types with the same methods. Class attributes (no annotation)
   describe a part to the doors; kernels never read them.
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
class Mirror(Protocol):
    """A distance for online learning, as a mirror map: the shortest form in which a user can write a geometry.

    The loop keeps dual weights θ, moves them by θ ← θ − rate·gradient, and predicts with w = ∇ψ*(θ). The map may
    couple the coordinates through one number, the total Σ_j mass(θ_j). θ starts at 0.
    """

    def weight(self, dual: float, total: float) -> float:
        """w_j, from θ_j and the total."""
        ...

    def mass(self, dual: float) -> float:
        """What θ_j adds to the total."""
        ...

    def conjugate(self, total: float) -> float:
        """ψ*(θ), from the total."""
        ...

    def divergence(self, u: Any) -> float:
        """B(u, w₁) of a whole comparator u (NumPy, never compiled); infinity where u is not allowed."""
        ...


@runtime_checkable
class Geometry(Protocol):
    """A distance for online learning in full, coordinate by coordinate, called in Python; a Mirror is compiled where the extra jit is.

    Class attributes: ``linked`` says that the weights are not the duals themselves (mass and weight are used);
    ``adaptive`` that ``move`` keeps a memory per coordinate; ``normed`` that ``step`` or ``slope`` need ‖x‖².
    ``shift`` follows the largest ``height`` of a dual, so that exp(dual − shift) neither overflows nor vanishes.
    """

    def weight(self, dual: float, total: float, shift: float) -> float:
        """w_j."""
        ...

    def mass(self, dual: float, shift: float) -> float:
        """What θ_j adds to the total."""
        ...

    def height(self, dual: float) -> float:
        """The exponent that the shift must follow; 0 where there is none."""
        ...

    def step(self, rate: float, norm2: float) -> float:
        """The step for a row of this squared norm."""
        ...

    def slope(self, loss: Any, score: float, y: float, gain: float) -> float:
        """The slope to follow; ``gain`` is how far the score falls per unit of slope."""
        ...

    def move(self, dual: float, memory: float, gradient: float, step: float) -> tuple[float, float]:
        """The next dual and memory of one coordinate."""
        ...

    def excess(
        self, loss: Any, score: float, y: float, slope: float, norm2: float, step: float, before: float, after: float
    ) -> float:
        """g·(w_t − w_{t+1}) − B(w_{t+1}, w_t)/step, the round's term of the universal regret bound.

        ``before`` and ``after`` are ψ*(θ) around the update of a linked geometry.
        """
        ...

    def conjugate(self, total: float, shift: float) -> float:
        """ψ*(θ) of a linked geometry."""
        ...

    def divergence(self, u: Any) -> float:
        """B(u, w₁) of a whole comparator u (NumPy, never compiled)."""
        ...


@runtime_checkable
class OnlineRecord(Protocol):
    """What every online learner's record offers: the estimators, the command line and the service use only this.

    Rows are learned in order; predictions are those made *before* each update (on the target's scale for
    regression, the probability or score of +1 for two classes, one column a class for more). A refusal leaves the
    record unchanged. A row at a time and a block at a time give bit-identical states.
    """

    kind: ClassVar[str]

    def learn(self, X: Any, y: Any, weights: Any = None) -> Any: ...
    def predict(self, X: Any) -> Any: ...
    def learn_one(self, features: dict[str, float], y: Any, weight: float = 1.0) -> Any: ...
    def predict_one(self, features: dict[str, float]) -> Any: ...
    def certificate(self) -> Any: ...
    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]: ...

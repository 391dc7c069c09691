"""Kernel ridge regression: f(x) = b + Σ c_i K(x, x_i) that minimises ½Σ w_i(y_i − f(x_i))² + ½α‖f‖².

Exact: with S = √W, the system (SKS + αI)c' = S(y − b), c = Sc', 1·c = 0. For *any* such c the distance to the optimum
is at most ½Σ w_i(r_i − αc_i/w_i)², r = y − f (weak duality): that is the certificate, and it holds no subtraction of
large numbers. Leaving row i out changes its residual to c_i/(M⁻¹)_ii, M the matrix of the system bordered by the
intercept.

Beyond ``EXACT_ROWS`` rows f is sought in the span of a few landmarks (Nyström) or of random cosines: a ridge in those
features, with the same gap ½‖Φ'Wr − αθ‖²/α and residual/(1 − leverage) for leave-one-out.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from .. import dense
from ..certificates.certificate import Assumption, Status, from_dict
from ..certificates.optimality import KernelCertificate, gap_status, relative_gap
from ..errors import DataError, UsageError
from ..modelfile import Array
from ..online.saving import describe, rebuild
from ..parts.kernels import KERNELS, Gaussian, gram

EXACT_ROWS = 5_000
FORMS = ("auto", "exact", "nystrom", "random_features")
BLOCK = 4_096
KEPT = 50_000_000  # entries of the feature table that may be kept between its two readings
GRID = np.logspace(-8.0, 3.0, 34)  # penalties tried by alpha="auto", times the mean of K(x, x)


@dataclasses.dataclass
class KernelModel:
    """A fitted kernel expansion; with random features ``points`` holds the frequencies and ``phases`` their phases."""

    shape: Any
    form: str
    points: np.ndarray
    coef: np.ndarray
    intercept: float
    alpha: float
    certificate: KernelCertificate | None
    residuals: np.ndarray  # leave-one-out
    phases: np.ndarray | None = None
    names: tuple[str, ...] | None = None
    tried: np.ndarray | None = None  # (alpha, leave-one-out error) rows of alpha="auto"

    kind = "kernel"
    takes_parts = True

    def assigned(self) -> None:
        """Note that the numbers are a user's: nothing that was said of the fitted ones holds of them."""
        self.certificate = None

    def predict(self, X: np.ndarray) -> np.ndarray:
        """f of each row, by blocks."""
        out = np.empty(len(X))
        for a in range(0, len(X), BLOCK):
            out[a : a + BLOCK] = self._block(X[a : a + BLOCK]) @ self.coef + self.intercept
        return out

    def _block(self, X: np.ndarray) -> np.ndarray:
        if self.phases is not None:
            return cosines(X, self.points, self.phases)
        return gram(self.shape, X, self.points)

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain metadata."""
        arrays = {"points": self.points, "coef": self.coef, "residuals": self.residuals}
        arrays |= {} if self.phases is None else {"phases": self.phases}
        arrays |= {} if self.tried is None else {"tried": self.tried}
        shape = describe(self.shape) if isinstance(self.shape, tuple) else None
        return arrays, {
            "shape": shape, "form": self.form, "intercept": self.intercept, "alpha": self.alpha,
            "names": None if self.names is None else list(self.names), "width": self.points.shape[1], "certificate": None if self.certificate is None else self.certificate.to_dict(),
        }  # fmt: skip

    @staticmethod
    def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> dict[str, Array]:
        """The rows or frequencies that the function is made of, and their coefficients."""
        width: Any = meta.get("width", "width")  # not in older files
        made = {
            "points": Array(("points", width)),
            "coef": Array(("points",)),
            "residuals": Array(("rows",), values="any"),
        }
        if meta["form"] == "random_features":
            made["phases"] = Array(("points",))
        return made | {"tried": Array(("tried", 2), values="any", optional="tried")}

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any], parts: Any = ()) -> KernelModel:
        """The record of a state; a kernel of the user's own is handed back in ``parts``."""
        proof: Any = None if meta["certificate"] is None else from_dict(meta["certificate"])
        names = None if meta["names"] is None else tuple(meta["names"])
        return cls(
            rebuild(meta["shape"], KERNELS, "kernel", parts), meta["form"], arrays["points"], arrays["coef"],
            meta["intercept"], meta["alpha"], proof, arrays["residuals"], arrays.get("phases"), names,
            arrays.get("tried"),
        )  # fmt: skip


def fit_kernel(
    X: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray | None,
    shape: Any,
    alpha: float | str,
    *,
    fit_intercept: bool = True,
    form: str = "auto",
    components: int = 500,
    rng: np.random.RandomState | None = None,
    tol: float = 1e-9,
) -> KernelModel:
    """The fit; ``alpha="auto"`` takes the penalty with the least leave-one-out error."""
    if form == "auto":
        form = "exact" if len(X) <= EXACT_ROWS else "nystrom"
    w = np.ones(len(X)) if weights is None else weights
    counted = w > 0.0
    if not counted.all():
        if not counted.any():
            raise DataError("all weights are zero; at least one row needs a positive weight", where="sample_weight")
        part = fit_kernel(
            X[counted], y[counted], w[counted], shape, alpha, fit_intercept=fit_intercept, form=form,
            components=components, rng=rng, tol=tol,
        )  # fmt: skip
        inside, part.residuals = part.residuals, y - part.predict(X)
        part.residuals[counted] = inside
        return part
    if form == "exact":
        return _exact(X, y, w, shape, alpha, fit_intercept, tol)
    return _features(X, y, w, shape, alpha, fit_intercept, form, components, rng or np.random.RandomState(0), tol)


def _exact(
    X: np.ndarray, y: np.ndarray, w: np.ndarray, shape: Any, alpha: float | str, fit_intercept: bool, tol: float
) -> KernelModel:
    from scipy.linalg import lapack

    K = gram(shape, X)
    root = np.sqrt(w)
    M = K if (w == 1.0).all() else K * root * root[:, None]
    right = root * y
    tried = None
    if isinstance(alpha, str):
        alpha, tried = _choose(M, right, root, w, fit_intercept)
    M = np.array(M)
    M[np.diag_indices_from(M)] += alpha
    with dense.alone(len(M)):
        L, wrong = lapack.dpotrf(M.T, lower=1, overwrite_a=1, clean=1)
    if wrong:
        raise UsageError(
            f"the kernel matrix plus alpha = {alpha:g} is not positive definite; raise alpha"
            + ("" if isinstance(shape, tuple) else ", or give a kernel that is an inner product"),
            where="alpha",
        )
    c, intercept = _solve(L, right, root, fit_intercept, lapack)
    scores = K @ (root * c)
    # One step of refinement: the residual costs a product, the factor is at hand.
    more, shift = _solve(L, root * (y - scores - intercept) - alpha * c, root, fit_intercept, lapack)
    c, intercept = c + more, intercept + shift
    coef = root * c
    if fit_intercept:
        coef -= w * (coef.sum() / w.sum())  # the dual point must be feasible: 1·c = 0
        c = coef / root
    scores = K @ coef
    rest = y - scores - intercept
    miss = root * rest - alpha * c
    with dense.alone(len(L)):
        inverse, _ = lapack.dtrtri(L, lower=1, overwrite_c=1)
    v = inverse.T @ (inverse @ root)
    spread = np.einsum("ij,ij->j", inverse, inverse) - (v * v / (root @ v) if fit_intercept else 0.0)
    residuals = c / (root * spread)
    certificate = _certificate(
        0.5 * float(w @ rest**2) + 0.5 * alpha * float(coef @ scores),
        0.5 * float(miss @ miss),
        float(np.abs(rest - alpha * c / root).max()) / max(float(np.abs(y).max()), 1e-300),
        float(np.average(residuals**2, weights=w)),
        f"all {len(X)} rows' terms",
        _positive(shape, K),
        tol,
        0.5 * float(w @ (y - (w @ y / w.sum() if fit_intercept else 0.0)) ** 2),
    )
    return KernelModel(shape, "exact", X, coef, intercept, float(alpha), certificate, residuals, tried=tried)


def _solve(
    L: np.ndarray, right: np.ndarray, root: np.ndarray, fit_intercept: bool, lapack: Any
) -> tuple[np.ndarray, float]:
    """c' and b of the bordered system, from the factor."""
    with dense.alone(len(L)):
        both, _ = lapack.dpotrs(L, np.column_stack([right, root]), lower=1)
    if not fit_intercept:
        return both[:, 0], 0.0
    intercept = float(root @ both[:, 0] / (root @ both[:, 1]))
    return both[:, 0] - intercept * both[:, 1], intercept


def _choose(
    M: np.ndarray, right: np.ndarray, root: np.ndarray, w: np.ndarray, fit_intercept: bool
) -> tuple[float, np.ndarray]:
    """The penalty of the grid with the least leave-one-out error: one eigenvalue problem serves all."""
    values, Q = dense.eigh(M)
    alphas = GRID * max(float(np.trace(M)) / len(M), 1e-300)
    D = 1.0 / (np.maximum(values, 0.0)[:, None] + alphas)
    c = Q @ (D * (Q.T @ right)[:, None])
    spread = (Q * Q) @ D
    if fit_intercept:
        v = Q @ (D * (Q.T @ root)[:, None])
        c -= v * (root @ c / (root @ v))
        spread -= v * v / (root @ v)
    errors = w @ (c / (root[:, None] * spread)) ** 2 / w.sum()
    return float(alphas[int(np.argmin(errors))]), np.column_stack([alphas, errors])


def _positive(shape: Any, K: np.ndarray) -> bool:
    """Whether K is positive semi-definite: known of the built-in kernels, tried on these rows for others."""
    if isinstance(shape, tuple) and type(shape) in KERNELS.values():
        return True
    if not np.allclose(K, K.T, rtol=1e-10, atol=0.0):
        return False
    try:
        dense.cholesky(K + 1e-10 * max(float(np.trace(K)) / len(K), 1e-300) * np.eye(len(K)))
    except np.linalg.LinAlgError:
        return False
    return True


def cosines(X: np.ndarray, frequencies: np.ndarray, phases: np.ndarray) -> np.ndarray:
    """√(2/m)·cos(ω·x + φ): inner products of these have the Gaussian kernel as their mean."""
    out = X @ frequencies.T + phases
    np.cos(out, out=out)
    out *= math.sqrt(2.0 / len(phases))
    return out


def _features(
    X: np.ndarray, y: np.ndarray, w: np.ndarray, shape: Any, alpha: float | str, fit_intercept: bool, form: str,
    components: int, rng: np.random.RandomState, tol: float,
) -> KernelModel:  # fmt: skip
    phases = None
    if form == "random_features":
        if not isinstance(shape, Gaussian):
            raise UsageError("random features are those of the Gaussian kernel; use 'nystrom'", where="approximation")
        points = rng.normal(scale=math.sqrt(2.0 * shape.gamma), size=(components, X.shape[1]))
        phases = rng.uniform(0.0, 2.0 * math.pi, components)
        whiten = None
        scope = f"{components} random features"
    else:
        points = X[np.sort(rng.choice(len(X), min(components, len(X)), replace=False))]
        values, Q = dense.eigh(gram(shape, points))
        kept = values > 1e-12 * values[-1]
        whiten = Q[:, kept] / np.sqrt(values[kept])
        scope = f"the span of {len(points)} landmarks' terms, rank {int(kept.sum())}"
    made = KernelModel(shape, form, points, np.empty(0), 0.0, 0.0, KernelCertificate(), np.empty(0), phases)
    size = len(points) if whiten is None else whiten.shape[1]
    keep = len(X) * size <= KEPT
    kept_blocks: dict[int, np.ndarray] = {}

    def block(start: int) -> np.ndarray:
        if start not in kept_blocks:
            raw = made._block(X[start : start + BLOCK])
            found = raw if whiten is None else raw @ whiten
            if not keep:
                return found
            kept_blocks[start] = found
        return kept_blocks[start]

    starts = range(0, len(X), BLOCK)
    total = float(w.sum())
    middle = np.zeros(size)
    if fit_intercept:
        for a in starts:
            middle += w[a : a + BLOCK] @ block(a)
        middle /= total
    level = float(w @ y) / total if fit_intercept else 0.0
    G, g = np.zeros((size, size)), np.zeros(size)
    for a in starts:
        B, share = block(a) - middle, w[a : a + BLOCK]
        weighed = B * share[:, None]
        G += weighed.T @ B
        g += weighed.T @ (y[a : a + BLOCK] - level)

    values, turn = dense.eigh(G)  # turned so that the Gram matrix is diagonal: every penalty costs a division
    g = turn.T @ g

    def second_reading(alphas: np.ndarray, leave: Any) -> np.ndarray:
        """Each row's residual and leave-one-out residual at each penalty go to ``leave``; Φ'Wr at each comes back."""
        D = 1.0 / (np.maximum(values, 0.0)[:, None] + alphas)
        theta, slope = g[:, None] * D, np.zeros((size, len(alphas)))
        for a in starts:
            B, share = (block(a) - middle) @ turn, w[a : a + BLOCK, None]
            r = (y[a : a + BLOCK] - level)[:, None] - B @ theta
            slope += B.T @ (share * r)
            leverage = share * (B**2 @ D) + (share / total if fit_intercept else 0.0)
            leave(a, r, r / np.maximum(1.0 - leverage, 1e-12))
        return slope

    tried = None
    if isinstance(alpha, str):
        alphas = GRID * (float(np.trace(G)) / len(X) + 1e-300)
        errors = np.zeros(len(alphas))

        def judge(a: int, rest: np.ndarray, left: np.ndarray) -> None:
            errors[:] += w[a : a + BLOCK] @ left**2 / total

        second_reading(alphas, judge)
        alpha, tried = float(alphas[int(np.argmin(errors))]), np.column_stack([alphas, errors])
    rest, left = np.empty(len(X)), np.empty(len(X))

    def store(a: int, these: np.ndarray, those: np.ndarray) -> None:
        rest[a : a + BLOCK], left[a : a + BLOCK] = these[:, 0], those[:, 0]

    second_reading(np.array([float(alpha)]), store)
    turned = g / (np.maximum(values, 0.0) + alpha)
    theta = turn @ turned
    made.coef = theta if whiten is None else whiten @ theta
    made.intercept, made.alpha = level - float(middle @ theta), float(alpha)
    # What is certified is the function that predicts, with its coefficients as they are stored.
    slope = np.zeros(size)
    for a in starts:
        rest[a : a + BLOCK] = y[a : a + BLOCK] - made.predict(X[a : a + BLOCK])
        slope += ((block(a) - middle) @ turn).T @ (w[a : a + BLOCK] * rest[a : a + BLOCK])
    miss = slope - alpha * turned
    shift = float(w @ rest) / total if fit_intercept else 0.0
    made.certificate = _certificate(
        0.5 * float(w @ rest**2) + 0.5 * alpha * float(turned @ turned),
        0.5 * float(miss @ miss) / alpha + 0.5 * total * shift**2,
        float(np.linalg.norm(miss)) / max(float(np.linalg.norm(g)), 1e-300),
        float(w @ left**2) / total, scope, True, tol, 0.5 * float(w @ (y - level) ** 2), alpha,
    )  # fmt: skip
    made.residuals, made.tried = left, tried
    return made


def _certificate(
    primal: float,
    gap: float,
    residual: float,
    left: float,
    scope: str,
    positive: bool,
    tol: float,
    null: float,
    curvature: float = 1.0,
) -> KernelCertificate:
    if not math.isfinite(primal):
        raise DataError("the kernel values overflow; scale the columns or use a smaller gamma or degree", where="X")
    relative = relative_gap(gap, primal, null, 0.0)
    inner = Assumption("the kernel is an inner product", positive, remedy="use a built-in kernel or another callable")
    status = gap_status(gap, relative, tol) if positive else Status.VOID
    advice = ""
    if not positive:
        advice = "the kernel is not an inner product on these rows, so the objective has no such minimum"
    elif status is Status.NOT_PROVEN:
        advice = "the system is too ill-conditioned for float64; raise alpha"
    elif not scope.startswith("all"):
        advice = f"beyond {EXACT_ROWS} rows the optimum is sought over {scope}; approximation='exact' lifts this"
    return KernelCertificate(
        status=status,
        assumptions=(inner,),
        advice=advice, primal=primal, dual=primal - gap, gap=gap, relative_gap=relative, gradient_norm=math.sqrt(2.0 * gap * curvature),
        scope=scope, residual=residual, leave_one_out=left,
    )  # fmt: skip

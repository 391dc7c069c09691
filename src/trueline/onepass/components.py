"""Principal components from moments: eigenvectors of the centred products, C v = λ v; variance captured Σλ/tr C.

Full: one symmetric eigendecomposition. Randomised: a few steps of subspace iteration on C from a seeded start. Signs
are fixed so that each component's largest loading is positive. The certificate bounds each eigenvalue's error by its
residual ‖Cv − λv‖ (Weyl) plus the products' own noise.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .. import dense
from ..certificates.certificate import Assumption, Certificate, from_dict
from ..certificates.optimality import PROVEN_RESIDUAL, ExactCertificate, components_status
from ..doubled import UNIT
from ..modelfile import Array
from .digits import digits_of, rounding_squares
from .parts import Part

_ITERATIONS = 8
_EXTRA = 10


@dataclasses.dataclass
class Components:
    """Components as rows, with the variance each captures; the record behind ``PCA``."""

    kind = "components"

    terms: tuple[str, ...]
    mean: np.ndarray
    vectors: np.ndarray
    variance: np.ndarray
    total_variance: float
    noise_variance: float
    n: int
    whiten: bool = False
    schema: Any = None
    certificate: Certificate | None = None

    def assigned(self) -> None:
        """Note that the numbers are a user's: nothing that was said of the fitted ones holds of them."""
        self.certificate = None

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Scores of rows on the components."""
        scores = X @ self.vectors.T - self.mean @ self.vectors.T
        return scores / self._scale() if self.whiten else scores

    def restore(self, scores: np.ndarray) -> np.ndarray:
        """Rows from their scores."""
        scores = scores * self._scale() if self.whiten else scores
        return scores @ self.vectors + self.mean

    def _scale(self) -> np.ndarray:
        scale = np.sqrt(self.variance)
        return np.where(scale > np.finfo(float).eps, scale, np.finfo(float).eps)

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = {"mean": self.mean, "vectors": self.vectors, "variance": self.variance}
        meta = {
            "terms": list(self.terms),
            "total_variance": self.total_variance,
            "noise_variance": self.noise_variance,
            "n": self.n,
            "whiten": self.whiten,
            "schema": self.schema.to_dict() if hasattr(self.schema, "to_dict") else self.schema,
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
        }
        return arrays, meta

    @staticmethod
    def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> dict[str, Array]:
        """The mean of the columns, and the directions with their variances."""
        d = len(meta["terms"])
        return {"mean": Array((d,)), "vectors": Array(("kept", d)), "variance": Array(("kept",))}

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> Components:
        from .moments import schema_from

        return cls(
            tuple(meta["terms"]),
            arrays["mean"],
            arrays["vectors"],
            arrays["variance"],
            meta["total_variance"],
            meta["noise_variance"],
            meta["n"],
            meta["whiten"],
            schema_from(meta["schema"]),
            None if meta["certificate"] is None else from_dict(meta["certificate"]),
        )


def spectrum(part: Part, d: int) -> tuple[np.ndarray, np.ndarray]:
    """(eigenvalues of the covariance, components as rows), largest first."""
    values, vectors = dense.eigh(part.products[0][:d, :d])
    return np.maximum(values[::-1], 0.0) / (part.weight[0] - 1), with_signs(vectors[:, ::-1].T)


def randomised(part: Part, d: int, count: int, seed: Any, iterations: int = _ITERATIONS, extra: int = _EXTRA) -> tuple:
    """The leading ``count`` of ``spectrum`` by subspace iteration on C."""
    C = part.products[0][:d, :d]
    random = seed if hasattr(seed, "standard_normal") else np.random.default_rng(seed)
    Q = random.standard_normal((d, min(d, count + extra)))
    for _ in range(iterations):
        Q = dense.qr(C @ Q)[0]
    values, small = dense.eigh(Q.T @ C @ Q)
    vectors = (Q @ small)[:, ::-1].T[:count]
    return np.maximum(values[::-1][:count], 0.0) / (part.weight[0] - 1), with_signs(vectors)


def likeliest_dimension(values: np.ndarray, n: int) -> int:
    """How many components are signal, by the evidence of Minka (2000), "Automatic choice of dimensionality for PCA".

    >>> likeliest_dimension(np.array([9.0, 4.0, 1.01, 1.0, 0.99]), 1000)
    2
    """
    from scipy.special import gammaln

    d = len(values)
    logs = np.full(d, -np.inf)
    for k in range(1, d):
        if values[k - 1] <= np.finfo(float).eps:  # nothing is left but rounding
            break
        noise = max(float(values[k:].sum()) / (d - k), np.finfo(float).eps)
        i = np.arange(1, k + 1)
        angles = -k * np.log(2.0) + float(np.sum(gammaln((d - i + 1) / 2.0) - np.log(np.pi) * (d - i + 1) / 2.0))
        fit = -0.5 * n * (float(np.log(values[:k]).sum()) + np.log(noise) * (d - k))
        free = d * k - k * (k + 1.0) / 2.0
        flat = np.concatenate([values[:k], np.full(d - k, noise)])
        one, two = np.triu_indices(d, 1)
        counted = one < k
        one, two = one[counted], two[counted]
        with np.errstate(divide="ignore"):  # equal variances
            bends = np.log((values[one] - values[two]) * (1.0 / flat[two] - 1.0 / flat[one])) + np.log(n)
        logs[k] = angles + fit + 0.5 * np.log(2.0 * np.pi) * (free + k) - 0.5 * float(bends.sum()) - 0.5 * k * np.log(n)
    return int(np.argmax(logs))


def from_rows(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean, eigenvalues, components) by the SVD of centred rows: for tables wider than long."""
    mean = X.mean(axis=0)
    _, s, Vt = dense.svd(X - mean, full_matrices=False)
    return mean, s**2 / (len(X) - 1), with_signs(Vt)


def with_signs(vectors: np.ndarray) -> np.ndarray:
    """Each row with its largest loading positive."""
    if vectors.size == 0:
        return vectors
    largest = vectors[np.arange(len(vectors)), np.abs(vectors).argmax(axis=1)]
    return np.ascontiguousarray(vectors * np.where(largest < 0, -1.0, 1.0)[:, None])


def certified(part: Part, d: int, variance: np.ndarray, vectors: np.ndarray, integer: np.ndarray) -> ExactCertificate:
    """Digits of the eigenvalues kept, the components' orthogonality, and the rank they show."""
    # Near 1, so that no square of these squares overflows.
    near = -int(np.frexp(np.trace(part.products[0][:d, :d]))[1])
    C = np.ldexp(part.products[0][:d, :d], near)
    values = np.ldexp(variance, near) * (part.weight[0] - 1)
    residual = np.linalg.norm(C @ vectors.T - vectors.T * values, axis=0)
    noise = np.ldexp(part.noise[:d].sum(), near) + UNIT * np.trace(C)
    rounding = np.sqrt(np.ldexp(rounding_squares(part.raw_squares(), integer)[:d].sum(), near))
    top = values[0] if len(values) else 0.0
    seen = values > max(d * UNIT * top, rounding**2)
    with np.errstate(invalid="ignore"):
        moved = 2 * np.sqrt(np.maximum(values, 0)) * rounding
    gram = vectors @ vectors.T - np.eye(len(vectors))
    arithmetic, allowed = digits_of((residual + noise)[seen], values[seen]), digits_of(moved[seen], values[seen])
    worst = float(np.max(residual[seen] / values[seen], initial=0.0))
    return ExactCertificate(
        status=components_status(bool(seen.any()), worst, min(arithmetic, allowed)),
        assumptions=(Assumption("the rows vary", bool(seen.any())),),
        advice=""
        if worst <= PROVEN_RESIDUAL
        else "more steps of subspace iteration find the components (iterated_power)",
        arithmetic_digits=arithmetic,
        data_digits=allowed,
        condition_number=float(np.sqrt(top / values[seen][-1])) if seen.any() else 1.0,
        rank=int(seen.sum()),
        orthogonality=float(np.abs(gram).max(initial=0.0)),
    )


def certified_rows(variance: np.ndarray, vectors: np.ndarray) -> ExactCertificate:
    """Of a singular value decomposition: each singular value is off by a few units of the largest."""
    top = variance[0] if len(variance) else 0.0
    seen = variance > (len(variance) * UNIT) ** 2 * top
    errors = 2 * np.sqrt(variance * top) * 8 * UNIT
    digits = digits_of(errors[seen], variance[seen])
    gram = vectors @ vectors.T - np.eye(len(vectors))
    return ExactCertificate(
        status=components_status(bool(seen.any()), 0.0, digits),
        assumptions=(Assumption("the rows vary", bool(seen.any())),),
        arithmetic_digits=digits,
        data_digits=digits,
        condition_number=float(np.sqrt(top / variance[seen][-1])) if seen.any() else 1.0,
        rank=int(seen.sum()),
        orthogonality=float(np.abs(gram).max(initial=0.0)),
    )

"""AdaptiveFilter: the door to every method, for arrays, sound-card blocks and single samples.

Time domain (lms, nlms, apa, rls): sample by sample, the same bits however the signal is cut into blocks, and no array
is made after the first block when ``out`` is given. Frequency domain (fdaf, kalman): the cost a sample hardly grows
with the taps.
"""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Any

import numpy as np

from ..certificates.regret import RegretCertificate
from ..echo.lms_filter import CHUNK
from ..errors import DataError, ModelError, UsageError, nearest
from ..modelfile import Array, save, whole_numbers

METHODS = {
    "lms": ("rate", "dtype", "certify"),
    "nlms": ("rate", "epsilon", "dtype"),
    "apa": ("rate", "order", "ridge"),
    "rls": ("forgetting", "ridge"),
    "fdaf": ("rate", "block", "sample_rate"),
    "kalman": ("block", "sample_rate"),
}


class AdaptiveFilter:
    """Learn a response from ``far`` to ``mic`` while filtering; what is left of ``mic`` is returned.

    Parameters
    ----------
    taps : length of the response, in samples.
    method : "lms", "nlms", "apa", "rls" (time domain), "fdaf" or "kalman" (frequency domain; "kalman" has no rate).
    rate : the step: required for "lms" (below 1/max‖x‖² its theorem holds), 0.5 for "nlms", "apa" and "fdaf".
    epsilon : added to ‖x‖² by "nlms"; default 1e-5 a tap, for sound in [−1, 1].
    order : windows that "apa" projects on; default 4.
    ridge : regularisation of "apa" and "rls", relative to the far end's power; default 1e-2.
    forgetting : of "rls"; default 1 − 1/(10·taps).
    dtype : "float32" (default) or "float64", for "lms" and "nlms"; "apa" and "rls" work in float64, FFTs in float32.
    block, sample_rate : of "fdaf" and "kalman": samples learned from at a time; default the power of two nearest
        16 ms at ``sample_rate`` (default 16,000).
    certify : keep the sums for the regret certificate of "lms" (doubles its work; leave it off in real time).

    >>> import numpy as np
    >>> far = np.sin(0.1 * np.arange(4000) ** 1.3)
    >>> room = AdaptiveFilter(8, "nlms")
    >>> left = room.process(far, 0.5 * far)
    >>> bool(abs(left[-100:]).max() < 1e-3), room.impulse_response.shape
    (True, (8,))
    """

    kind = "filter"

    def __init__(
        self,
        taps: int,
        method: str = "nlms",
        *,
        rate: float | None = None,
        epsilon: float | None = None,
        order: int | None = None,
        ridge: float | None = None,
        forgetting: float | None = None,
        dtype: str | None = None,
        block: int | None = None,
        sample_rate: float | None = None,
        certify: bool = False,
    ) -> None:
        if method not in METHODS:
            raise UsageError(f"there is no method named {method!r}{nearest(str(method), METHODS)}", where="method")
        given: dict[str, Any] = {
            "rate": rate,
            "epsilon": epsilon,
            "order": order,
            "ridge": ridge,
            "forgetting": forgetting,
        }
        given |= {"dtype": dtype, "block": block, "sample_rate": sample_rate, "certify": certify or None}
        for name, value in given.items():
            if value is not None and name not in METHODS[method]:
                takes = ", ".join(METHODS[method])
                raise UsageError(f"method {method!r} does not use {name}; it takes {takes}", where=name)
        self.taps, self.method, self.certify = _whole(taps, "taps"), method, certify
        self.options = {name: value for name, value in given.items() if value is not None}
        self.samples = 0
        self._sums: Any = None
        self._spectra: Any = None
        self._core: Any = self._made()
        self._finite = np.zeros(CHUNK, bool)

    def _made(self) -> Any:
        """The state of the method."""
        option, taps = self.options, self.taps
        if self.method in ("lms", "nlms"):
            from ..echo.lms_filter import LmsFilter

            if self.method == "lms" and "rate" not in option:
                raise UsageError("method 'lms' needs a rate (below 1/max‖x‖²); 'nlms' sets its own", where="rate")
            if self.certify:
                from ..echo.toeplitz_comparator import Toeplitz

                self._sums = Toeplitz(taps)
            rate = _positive(option.get("rate", 0.5), "rate")
            epsilon = _positive(option.get("epsilon", 1e-5 * taps), "epsilon")
            return LmsFilter(taps, self.method == "nlms", rate, epsilon, _dtype(option.get("dtype", "float32")))
        if self.method == "apa":
            from ..echo.affine_projection import AffineProjection

            rate, ridge = _positive(option.get("rate", 0.5), "rate"), _positive(option.get("ridge", 1e-2), "ridge")
            return AffineProjection(taps, rate, _whole(option.get("order", 4), "order"), ridge)
        if self.method == "rls":
            from ..echo.affine_projection import RecursiveLeastSquares

            forgetting = float(option.get("forgetting", 1 - 1 / (10 * taps)))
            if not 0 < forgetting <= 1:
                raise UsageError(f"forgetting must be above 0 and at most 1, not {forgetting:g}", where="forgetting")
            return RecursiveLeastSquares(taps, forgetting, _positive(option.get("ridge", 1e-2), "ridge"))
        from ..echo.frequency_domain import FrequencyLms, Spectra

        hertz = _positive(option.get("sample_rate", 16_000), "sample_rate")
        block = _whole(option.get("block", 2 ** max(1, round(math.log2(0.016 * hertz)))), "block")
        partitions = math.ceil(taps / block)
        if self.method == "fdaf":
            self._spectra = Spectra(block, partitions)
            return FrequencyLms(block, partitions, _positive(option.get("rate", 0.5), "rate"))
        from ..echo.kalman_filter import MEMORY, Kalman

        self._spectra = Spectra(block, partitions, MEMORY)
        return Kalman(block, partitions, hertz)

    @property
    def impulse_response(self) -> np.ndarray:
        """The response learned so far, the newest sample's weight first."""
        if self._spectra is not None:
            return self._spectra.response(self._core.weights)[: self.taps].copy()
        return self._core.weights.copy()

    @property
    def resets(self) -> int:
        """How often the filter had to begin again, because it had diverged or its path had gone."""
        return self._core.resets

    def process(self, far: Any, mic: Any, out: np.ndarray | None = None) -> Any:
        """The error signal: ``mic`` without what ``far`` explains. Single numbers give a single number.

        With ``out``, an array of the same length, the time-domain methods allocate nothing.
        """
        one = np.ndim(far) == 0 and np.ndim(mic) == 0
        far, mic = np.atleast_1d(far), np.atleast_1d(mic)
        self._check(far, mic, out)
        result = np.empty(len(mic), np.float32 if self._single else np.float64) if out is None else out
        if self._spectra is not None:
            self._spectra.process(self._core, far, mic, result)
        else:
            for start in range(0, len(mic), CHUNK):
                stop = min(start + CHUNK, len(mic))
                self._core.chunk(far[start:stop], mic[start:stop], result[start:stop])
                if self._sums is not None:
                    self._sums.add(self._core, stop - start)
        self.samples += len(mic)
        return float(result[0]) if one else result

    @property
    def _single(self) -> bool:
        return self.method in ("fdaf", "kalman") or self.options.get("dtype", "float32") == "float32"

    def _check(self, far: np.ndarray, mic: np.ndarray, out: np.ndarray | None) -> None:
        for name, sound in (("far", far), ("mic", mic)):
            if sound.ndim != 1:
                raise DataError(
                    f"{name} has {sound.shape[-1]} channels; choose one, for example {name}[:, 0]", where=name
                )
            if sound.dtype.kind not in "fiu":
                raise DataError(f"{name} holds {sound.dtype}, not numbers; give floats in [−1, 1]", where=name)
        if len(far) != len(mic):
            raise DataError(
                f"far has {len(far)} samples but mic has {len(mic)}; give blocks of equal length", where="mic"
            )
        if out is not None and (out.shape != mic.shape or out.dtype.kind != "f"):
            raise UsageError(f"out must be a float array of {len(mic)} samples", where="out")
        for name, sound in (("far", far), ("mic", mic)):
            for start in range(0, len(sound), CHUNK):
                piece = sound[start : start + CHUNK]
                flags = np.isfinite(piece, out=self._finite[: len(piece)])
                if not flags.all():
                    first = start + int(np.argmin(flags))
                    raise DataError(
                        f"{name} has a sample that is not a finite number: {sound[first]} at {first}; "
                        "the block was not used",
                        where=name,
                    )

    def certificate(self) -> RegretCertificate:
        """What the run proves: for "lms" with certify=True, regret against the best fixed filter and its bound.

        >>> import numpy as np
        >>> far = np.cos(0.7 * np.arange(500) ** 1.1)
        >>> lms = AdaptiveFilter(4, "lms", rate=0.1, certify=True)
        >>> _ = lms.process(far, np.roll(far, 1))
        >>> proof = lms.certificate()
        >>> proof.proven, bool(proof.loss <= proof.bound)
        (True, True)
        """
        from ..echo import toeplitz_comparator as toeplitz

        if self.method == "nlms":
            return toeplitz.nlms_certificate(self._core)
        if self.method != "lms":
            return toeplitz.no_theorem(self.method, "has no theorem here; 'lms' has one")
        if self._sums is None:
            return toeplitz.no_theorem("lms", "keeps no sums in real time; use certify=True")
        return toeplitz.lms_certificate(self._core, self._sums)

    certificate_ = property(certificate)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the filter to a file; ``trueline.load`` gives it back and it goes on as if it had never stopped."""
        save(self, path)

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, core = self._core.to_state()
        meta = {"taps": self.taps, "method": self.method, "options": self.options, "samples": self.samples}
        meta |= {"core": core, "spectra": {}}
        if self._sums is not None:
            arrays |= {"sum_r": self._sums.r, "sum_b": self._sums.b, "sum_energy": self._sums.energy}
        if self._spectra is not None:
            more, meta["spectra"] = self._spectra.to_state()
            arrays |= more
        return {name: np.array(array) for name, array in arrays.items()}, meta

    @staticmethod
    def declared(arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> dict[str, Array]:
        """What a new filter of these settings holds."""
        fresh = AdaptiveFilter(meta["taps"], meta["method"], **meta["options"])
        state = fresh.to_state()[0]
        made: dict[str, Array] = {n: Array(a.shape, a.dtype.name) for n, a in state.items()}
        if "loud" in made:  # numbers of the frames that are remembered
            made["loud"] = Array((range(len(state["mics"]) + 1),), holds=whole_numbers(0, 2.0**53))
            made |= {name: dataclasses.replace(made[name], optional="remembered") for name in ("mics", "loud")}
        for name in ("left", "before"):  # not in older files
            if name in made:
                made[name] = dataclasses.replace(made[name], optional="left")
        if "energies" in made:  # older files had more sums
            made["energies"] = Array((range(2, 4), range(3, 6)))
        if "spectra" in made:  # and fewer frames
            rows, columns = state["spectra"].shape
            made["spectra"] = Array((range(1, rows + 1), columns), "float32")
            if int(meta["spectra"]["fill"]) not in range(len(state["frame"]) + 1):
                raise ModelError("the filter's frame holds more samples than there are; use an intact copy")
        return made

    def __reduce__(self) -> tuple[Any, Any]:
        """Copies and pickles hold what a file does."""
        return type(self).from_state, self.to_state()

    @classmethod
    def from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> AdaptiveFilter:
        try:
            made = cls(meta["taps"], meta["method"], **meta["options"])
            made.samples = int(meta["samples"])
            made._core.adopt(arrays, meta["core"])
            if made._sums is not None:
                made._sums.r[:], made._sums.b[:] = arrays["sum_r"], arrays["sum_b"]
                made._sums.energy[:] = arrays["sum_energy"]
            if made._spectra is not None:
                made._spectra.adopt(arrays, meta["spectra"])
        except (KeyError, TypeError, ValueError, OverflowError):  # a field missing, or arrays of another shape
            raise ModelError(
                "the file holds an adaptive filter of another version of trueline; learn the room again and save it",
                where="filter",
            ) from None
        return made


def _whole(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise UsageError(f"{name} must be a whole number of at least 1, not {value!r}", where=name)
    return int(value)


def _positive(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < math.inf:
        raise UsageError(f"{name} must be a positive number, not {value!r}", where=name)
    return number


def _dtype(name: str) -> Any:
    if name not in ("float32", "float64"):
        raise UsageError(f"dtype must be 'float32' or 'float64', not {name!r}", where="dtype")
    return np.dtype(name).type

"""The frequency-domain Kalman filter, main and shadow: no step size anywhere.

Each bin of each partition has a weight W and its variance C. With Ψ the spectrum of what is not echo,

    μ = C / (½ Σ_p |X_p|² C_p + Ψ)          W += constrained(conj(X)·μ·E)
    C ← A²(1 − β·½ μ|X|²) C + (1 − A²)|W|²

so the step is large where the weight is uncertain and the far end louder than the near end, and small where somebody
is talking. Each step answers two frames at once, the current one and an *older* one, whose error is computed anew: with
S the matrix [½Σ_p X_p C_p conj(X'_p)] + diag(Ψ, Ψ') over both, W += constrained(C·(conj(X)·z + conj(X')·z')), S z = E.
Speech is a few harmonics at a time, and one frame says little about the rest of the response; two frames of different
vowels say more, and the long way to convergence is cut to a fraction (10 dB of ERLE after 9 s on high voices). Ψ' is the
older frame's own error power, averaged over five bins: a frame that does not fit, because somebody talked in it or
because the path was another, counts for little. C shrinks by the current frame alone, since an older frame has already
been counted.

Two filters see the same sound. The *main* one, which is heard, forgets in 10⁴ s, looks back two seconds and takes Ψ from
its error before the update: cautious, so double talk does not move it. The *shadow* forgets in ½ s, looks back a quarter,
takes Ψ from the error that is left after its update, and is never surer than its error allows (C is at least the prior
times error/microphone energy): bold, so it follows a path that moves.

When the main filter adds more than it removes, the path has gone, and both begin again from the prior: a filter that
knows nothing learns a new room sooner than one that is wrong. (Somebody who talks hardly brings that about: it takes a
predicted echo about as loud as the microphone and not in it.) After a smaller move a shadow that is clearly better over
100 ms and over 400 ms replaces the main filter, with a cross-fade over one block, but only where the main one does badly:
on one vowel the shadow fits that vowel's few harmonics better than a filter that knows the room. It may fit a near end
of nearly the far end's pitch as well, by a factor of two and for a syllable, so it must be better by nearly three where
the main one leaves a third of the microphone, or have been better for most of two seconds, counted in blocks: sums of energy would be those of the last loud syllable.
A main filter in its first three seconds has less to lose and needs neither.

β = ¼ in the main filter (the textbook has 1) keeps C honest although neighbouring bins and partitions share their
errors. The prior of C is microphone power over far power; each bin below 100 Hz has its own if that is larger: a room
booms there, below any voice's pitch, and a C that is too small never learns it. (Own priors for all bins cost up to
13 dB on high voices: between harmonics there is nothing to divide by.) The constants were chosen on synthesised rooms
and voices, by double talk as much as by echo alone.
"""

from __future__ import annotations

import math
from typing import Any

import cython
import numpy as np

from .frequency_domain import Spectra, as_complex, as_real
from .sound_walks import Singles, Spectrum

if not cython.compiled:  # compiled, these come from kalman_filter.pxd
    from .sound_walks import answer, covary, gradient, product_add, renew, single_norm2

MAIN: cython.int = 0
SHADOW: cython.int = 1
MIC: cython.int = 2
LEFT: cython.int = 4  # what the shadow leaves of the frame before, after four spectra of this one
HALF: cython.float = 0.5
FIFTH: cython.float = 0.2
STAY, ADOPT, RESTART = 0, 1, 2
BETTER, LONG_BETTER, WORSE = 0.5, 0.6, 2.0  # error energies, shadow/main: to adopt (100 and 400 ms), to give up
POOR, BAD, LOST = 0.1, 0.3, 1.5  # main/microphone: worth replacing; at once; to restart
MUCH, MOSTLY = 0.35, 0.6  # better by that much at once, or for that share of the last two seconds
MEMORY, RECENT = 128, 16  # frames that the main filter and the shadow look back over
RINGS = 0.5  # seconds in which the prior falls by 60 dB
BOOM_BELOW, BOOM = 100.0, 300.0  # Hz below which a bin has a prior of its own; the most it may exceed the mean


@cython.final
@cython.cclass
class FilterPair:
    """Weights, variances, noise spectra and errors of both filters, and the arithmetic of one frame.

    Five spectra a frame go through one transform: the current frame for both filters, an older one for each, and the
    frame before as the shadow predicts it since it has learned from it. A system of two frames has its diagonal in rows
    i and 2 + i of S for filter i.
    """

    def __init__(self, block: int, partitions: int, seconds: float) -> None:
        shape, bins = (2, partitions, block + 1), block + 1
        self.block, self.partitions = block, partitions
        self.W = np.zeros(shape, np.complex64)
        self.C = np.zeros(shape, np.float32)
        self.G = np.zeros(shape, np.complex64)
        self.noise = np.zeros((2, bins), np.float32)
        self.older_noise = np.zeros((2, bins), np.float32)
        self.noise_share = 1 - math.exp(-seconds / 0.06)
        self.keep = np.array([math.exp(-seconds / 1e4), math.exp(-seconds / 0.5)], np.float32)
        self.beta = np.array([0.25, 1.0], np.float32)
        self.gain = np.zeros(bins, np.float32)  # the prior of each bin: echo power / far power
        decay = 10.0 ** (-6 * np.arange(partitions) * seconds / RINGS)
        self.decay = (decay / decay.sum()).astype(np.float32)
        self.floor = 0.0  # of Ψ
        self.rows = np.zeros(4, np.int64)  # where the frames of the first four spectra are
        self.Y = np.zeros((5, bins), np.complex64)
        self.errors = np.zeros((5, 2 * block), np.float32)  # in the second halves
        self.before = np.zeros(block, np.float32)  # the microphone in the frame before
        self.S = np.zeros((4, bins), np.float32)
        self.rate = np.zeros((2, bins), np.float32)  # ½β/S
        self.between = np.zeros((2, bins), np.complex64)
        self.power = np.zeros(bins + 4, np.float32)

    def hear(self, mic: Singles, mics: Singles, echoes: Singles) -> None:
        """The errors of the five frames."""
        k: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.block
        for k in range(n):
            self.errors[0, n + k] = mic[k] - echoes[0, n + k]
            self.errors[1, n + k] = mic[k] - echoes[1, n + k]
        for k in range(n):
            self.errors[2, n + k] = mics[self.rows[2], k] - echoes[2, n + k]
            self.errors[3, n + k] = mics[self.rows[3], k] - echoes[3, n + k]
        for k in range(n):
            self.errors[4, n + k] = self.before[k] - echoes[4, n + k]
            self.before[k] = mic[k]

    def error_energy(self, which: cython.Py_ssize_t) -> float:
        return single_norm2(self.errors, which, self.block, self.block)

    def smooth(self, which: cython.Py_ssize_t, E: Spectrum, row: cython.Py_ssize_t) -> None:
        """Ψ += share·(|E|² − Ψ)."""
        k: cython.Py_ssize_t
        e: cython.floatcomplex
        for k in range(E.shape[1]):
            e = E[row, k]
            self.noise[which, k] += self.noise_share * (e.real * e.real + e.imag * e.imag - self.noise[which, k])

    def around(self, E: Spectrum) -> None:
        """Ψ': |E|² of the older frames, the rows after the current ones, averaged over five bins."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        e: cython.floatcomplex
        bins: cython.Py_ssize_t = E.shape[1]
        for i in range(2):
            for k in range(bins + 4):
                e = E[2 + i, min(max(k - 2, 0), bins - 1)]
                self.power[k] = e.real * e.real + e.imag * e.imag
            for k in range(bins):
                self.older_noise[i, k] = FIFTH * (
                    self.power[k] + self.power[k + 1] + self.power[k + 2] + self.power[k + 3] + self.power[k + 4]
                )

    def gradients(self, X: Spectrum, E: Spectrum) -> None:
        """G = C·(conj(X)·z + conj(X')·z') for each filter, z and z' in the place of both frames' errors in E."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        p: cython.Py_ssize_t
        now: cython.Py_ssize_t
        old: cython.Py_ssize_t
        ring: cython.Py_ssize_t = X.shape[0]
        self.smooth(MAIN, E, MAIN)
        self.smooth(SHADOW, E, LEFT)
        self.around(E)
        for i in range(2):
            now, old = self.rows[i], self.rows[2 + i]
            for k in range(E.shape[1]):
                self.S[i, k] = max(self.noise[i, k], self.floor)
                self.S[2 + i, k] = max(self.older_noise[i, k], self.floor)
            self.between[i, :] = 0.0
            if old == now:  # there is no older frame: what it would add is nothing
                E[2 + i, :] = 0.0
            for p in range(self.partitions):
                covary(self, X, (now + p) % ring, (old + p) % ring, i, p)
            if old == now:
                self.between[i, :] = 0.0
            answer(self, E, i)
            for p in range(self.partitions):
                gradient(self, X, (now + p) % ring, (old + p) % ring, E, i, p)

    def update(self, X: Spectrum, newest: cython.Py_ssize_t, surest: cython.float) -> None:
        """C ← A²(1 − β·½μ|X|²)C + (1 − A²)|W|², the shadow's above its least; what it now predicts."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        p: cython.Py_ssize_t
        row: cython.Py_ssize_t
        share: cython.float
        self.Y[LEFT, :] = 0.0
        for i in range(2):
            for k in range(X.shape[1]):
                self.rate[i, k] = HALF * self.beta[i] / self.S[i, k]
            for p in range(self.partitions):
                row = (newest + p) % X.shape[0]
                share = surest * self.decay[p] if i == SHADOW else 0.0
                renew(self, X, row, i, p, share, self.keep[i] * self.keep[i])
                if i == SHADOW:
                    product_add(X, row, self.W, i, p, self.Y, LEFT)


class Kalman:
    """Weights, variances and noise spectra of both filters."""

    def __init__(self, block: int, partitions: int, sample_rate: float) -> None:
        seconds = block / sample_rate
        self.pair = pair = FilterPair(block, partitions, seconds)
        # The pair's arrays, to be read and written here.
        self.W, self.C, self.noise, self.gain, self.decay, self._rows, self._Y, self._errors, self._before, self._G = (
            map(
                np.asarray,
                (
                    pair.W,
                    pair.C,
                    pair.noise,
                    pair.gain,
                    pair.decay,
                    pair.rows,
                    pair.Y,
                    pair.errors,
                    pair.before,
                    pair.G,
                ),
            )
        )
        self.energy_shares = [1 - math.exp(-seconds / over) for over in (0.1, 0.4)]
        self.wins_share = 1 - math.exp(-seconds / 2.0)
        self.first_second = max(1, round(1 / seconds))
        self.first_seconds = max(1, round(3 / seconds))
        self.energies = [[0.0] * 3, [0.0] * 3]  # over 0.1 and 0.4 s: main error, shadow error, microphone
        self.wins = 0.0  # the share of the last 2 s in which the shadow was better
        self.low = min(block + 1, int(BOOM_BELOW * 2 * seconds) + 1)
        self.age = 0  # blocks of far end since the main filter began or was replaced
        self.powers = np.zeros((2, block + 1))  # microphone and far end, summed over the first second of far activity
        self.active = 0
        self.loudest = 0.0
        self.next = STAY
        self.resets = 0
        self._fade = np.linspace(0, 1, block + 2, dtype=np.float32)[1 : block + 1]
        self._echoes = np.zeros((5, 2 * block), np.float32)  # in the second halves

    def output(self, spectra: Spectra) -> np.ndarray:
        self._rows[:] = spectra.newest
        if spectra.full:
            if self.next == STAY:
                self._rows[2:] = spectra.older(MEMORY), spectra.older(RECENT)
            self._echoes = spectra.estimates(self.W, self._rows, self._Y)
        else:
            self._echoes = spectra.estimates(self.W, self._rows[:2], self._Y[:2])
        main, shadow = self._echoes[:2, spectra.block :]
        if self.next == STAY:
            echo = main
        else:
            echo = main + self._fade * ((shadow if self.next == ADOPT else 0) - main)
        return echo if math.isfinite(echo @ echo) else np.zeros_like(echo)

    @property
    def weights(self) -> np.ndarray:
        """The filter that is heard."""
        return self.W[MAIN]

    def learn(self, spectra: Spectra, mic: np.ndarray) -> None:
        self.pair.hear(mic, spectra.mics, self._echoes)
        sound = spectra.far[spectra.block :]
        far = float(sound @ sound)
        now = [self.pair.error_energy(MAIN), self.pair.error_energy(SHADOW), float(mic @ mic)]
        if not math.isfinite(sum(now)):
            self._restart(spectra)
            self.energies = [[0.0] * 3, [0.0] * 3]
            self.noise[:], self._Y[LEFT], self._before[:] = 0, 0, 0
            return
        talking = self._set_prior(spectra, far, mic)
        if self.next == ADOPT:
            spectra.loud.clear()
            self.age = 0
            self.W[MAIN], self.C[MAIN], self._errors[MAIN] = self.W[SHADOW], self.C[SHADOW], self._errors[SHADOW]
            for energy in (*self.energies, now):
                energy[MAIN] = energy[SHADOW]
        elif self.next == RESTART:
            self._restart(spectra)
            self._errors[:2, spectra.block :] = mic
            for energy in (*self.energies, now):
                energy[MAIN] = energy[SHADOW] = energy[MIC]
        E = spectra.rfft(self._errors)
        self.pair.floor = 1e-9 * self.loudest + 1e-30
        self.pair.gradients(spectra.X, E)
        self.W += spectra.constrained(self._G)
        self.pair.update(spectra.X, spectra.newest, self._surest())
        if talking:
            spectra.remember()
        self._judge(now)

    def _surest(self) -> float:
        """The share of the prior that the shadow's variance keeps: its error's share of the microphone."""
        _, shadow, heard = self.energies[0]
        return min(1.0, shadow / heard) if heard > 0 else 0.0

    def _judge(self, now: list[float]) -> None:
        """What the next frame does about the two filters, from the energies of both errors and the microphone."""
        for share, energy in zip(self.energy_shares, self.energies):
            energy[:] = [old + share * (new - old) for old, new in zip(energy, now)]
        (main, shadow, heard), (long_main, long_shadow, _) = self.energies
        self.wins += self.wins_share * ((now[SHADOW] < LONG_BETTER * now[MAIN]) - self.wins)
        young = self.age < self.first_seconds
        much = main > BAD * heard and shadow < MUCH * main and long_shadow < MUCH * long_main
        self.next = STAY
        if main > LOST * heard:
            self.next = RESTART
        elif (
            shadow < BETTER * main
            and long_shadow < LONG_BETTER * long_main
            and main > POOR * heard
            and (young or self.wins > MOSTLY or much)
        ):
            self.next = ADOPT
        elif shadow > WORSE * main:
            self.W[SHADOW], self.C[SHADOW] = self.W[MAIN], self.C[MAIN]
            for energy in self.energies:
                energy[SHADOW] = energy[MAIN]

    def _set_prior(self, spectra: Spectra, power: float, mic: np.ndarray) -> bool:
        """Over the first second of far activity the prior follows mic power / far power. Is there a far end now?"""
        self.loudest = max(self.loudest, power)
        if power <= 1e-4 * self.loudest:
            return False
        self.age += 1
        if self.active >= self.first_second:
            return True
        self.active += 1
        X = spectra.X[spectra.newest]
        self.powers += np.abs(spectra.error_spectra(mic[None]))[0] ** 2, 0.5 * np.abs(X) ** 2
        heard, played = self.powers
        total = float(played.sum())
        if not total > 0:  # a far end so soft that its square is nothing
            return False
        mean = float(heard.sum()) / total
        own = heard[: self.low] / (played[: self.low] + 1e-6 * played.max())
        gain = np.full(len(heard), mean, np.float32)
        gain[: self.low] = np.clip(own, mean, BOOM * mean)
        rising = np.maximum(gain - self.gain, 0)
        falling = np.where(gain < self.gain, gain / np.maximum(self.gain, 1e-30), 1).astype(np.float32)
        self.C *= falling  # the first syllable was softer than the room's noise
        self.C += rising * self.decay[:, None]
        self.gain[:] = gain
        return True

    def _restart(self, spectra: Spectra) -> None:
        """Both filters begin again, and what was heard of another path is not asked for."""
        self.resets += 1
        self.age = 0
        self.W[:] = 0
        self.C[:] = self.gain * self.decay[:, None]
        spectra.loud.clear()

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = {"W": as_real(self.W), "C": self.C, "noise": self.noise, "energies": np.array(self.energies)}
        arrays |= {"powers": self.powers, "gain": self.gain, "left": as_real(self._Y[LEFT]), "before": self._before}
        meta = {
            "active": self.active,
            "loudest": self.loudest,
            "next": self.next,
            "resets": self.resets,
            "age": self.age,
            "wins": self.wins,
        }
        return arrays, meta

    def adopt(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        self.W[:], self.C[:], self.noise[:] = as_complex(arrays["W"]), arrays["C"], arrays["noise"]
        self.energies = arrays["energies"][:2, :3].tolist()  # older files had more sums
        self.powers[:], self.gain[:] = arrays["powers"], arrays["gain"]
        if "left" in arrays:
            self._Y[LEFT], self._before[:] = as_complex(arrays["left"]), arrays["before"]
        else:  # older files had counted it already: nothing left is then no change
            self.noise[SHADOW] /= 1 - self.pair.noise_share
        self.active, self.next, self.resets = int(meta["active"]), int(meta["next"]), int(meta["resets"])
        self.loudest, self.age = float(meta["loudest"]), int(meta["age"])
        self.wins = float(meta.get("wins", 0.0))

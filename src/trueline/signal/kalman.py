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

import numpy as np

from .._jit import kernel
from ..echo.frequency_domain import Spectra, as_complex, as_real

MAIN, SHADOW, MIC = 0, 1, 2
LEFT = 4  # what the shadow leaves of the frame before, after four spectra of this one
STAY, ADOPT, RESTART = 0, 1, 2
BETTER, LONG_BETTER, WORSE = 0.5, 0.6, 2.0  # error energies, shadow/main: to adopt (100 and 400 ms), to give up
POOR, BAD, LOST = 0.1, 0.3, 1.5  # main/microphone: worth replacing; at once; to restart
MUCH, MOSTLY = 0.35, 0.6  # better by that much at once, or for that share of the last two seconds
MEMORY, RECENT = 128, 16  # frames that the main filter and the shadow look back over
RINGS = 0.5  # seconds in which the prior falls by 60 dB
BOOM_BELOW, BOOM = 100.0, 300.0  # Hz below which a bin has a prior of its own; the most it may exceed the mean


class Kalman:
    """Weights, variances and noise spectra of both filters."""

    def __init__(self, block: int, partitions: int, sample_rate: float) -> None:
        shape = (2, partitions, block + 1)
        seconds = block / sample_rate
        self.W = np.zeros(shape, np.complex64)
        self.C = np.zeros(shape, np.float32)
        self.noise = np.zeros((2, block + 1), np.float32)
        decay = 10.0 ** (-6 * np.arange(partitions) * seconds / RINGS)
        self.decay = (decay / decay.sum()).astype(np.float32)
        self.keep = np.array([math.exp(-seconds / 1e4), math.exp(-seconds / 0.5)], np.float32)
        self.beta = np.array([0.25, 1.0], np.float32)
        self.energy_shares = [1 - math.exp(-seconds / over) for over in (0.1, 0.4)]
        self.wins_share = 1 - math.exp(-seconds / 2.0)
        self.noise_share = np.float32(1 - math.exp(-seconds / 0.06))
        self.first_second = max(1, round(1 / seconds))
        self.first_seconds = max(1, round(3 / seconds))
        self.energies = [[0.0] * 3, [0.0] * 3]  # over 0.1 and 0.4 s: main error, shadow error, microphone
        self.wins = 0.0  # the share of the last 2 s in which the shadow was better
        self.low = min(block + 1, int(BOOM_BELOW * 2 * seconds) + 1)
        self.age = 0  # blocks of far end since the main filter began or was replaced
        self.powers = np.zeros((2, block + 1))  # microphone and far end, summed over the first second of far activity
        self.active = 0
        self.loudest = 0.0
        self.gain = np.zeros(block + 1, np.float32)  # the prior of each bin: echo power / far power
        self.next = STAY
        self.resets = 0
        self._fade = np.linspace(0, 1, block + 2, dtype=np.float32)[1:-1]
        # Five spectra a frame go through one transform: the current frame for both filters, an older one for each, and
        # the frame before as the shadow predicts it since it has learned from it.
        self._rows = np.zeros(4, np.int64)
        self._Y = np.zeros((5, block + 1), np.complex64)
        self._before = np.zeros(block, np.float32)  # the microphone in the frame before
        self._echoes = np.zeros((5, 2 * block), np.float32)  # in the second halves
        self._errors = np.zeros((5, 2 * block), np.float32)
        self._now = np.zeros(4)
        self._S = np.zeros((4, block + 1), np.float32)
        self._between = np.zeros((2, block + 1), np.complex64)
        self._older_noise = np.zeros((2, block + 1), np.float32)
        self._G = np.zeros(shape, np.complex64)

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
        hear(spectra.far, mic, spectra.mics, self._rows, self._before, self._echoes, self._errors, self._now)
        far, *now = self._now.tolist()
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
        floor = np.float32(1e-9 * self.loudest + 1e-30)
        gradients(
            spectra.X, self._rows, self.C, self.noise, self.noise_share, self._older_noise, E, floor, self._S,
            self._between, self._G,
        )  # fmt: skip
        update(
            spectra.X, spectra.newest, self.W, self.C, spectra.constrained(self._G), self._S, self.keep, self.beta,
            self._surest(), self.gain, self.decay, self._Y[LEFT],
        )  # fmt: skip
        if talking:
            spectra.remember()
        self._judge(now)

    def _surest(self) -> np.float32:
        """The share of the prior that the shadow's variance keeps: its error's share of the microphone."""
        _, shadow, heard = self.energies[0]
        return np.float32(min(1.0, shadow / heard) if heard > 0 else 0.0)

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
        self.gain = gain
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
            self.noise[SHADOW] /= 1 - self.noise_share
        self.active, self.next, self.resets = int(meta["active"]), int(meta["next"]), int(meta["resets"])
        self.loudest, self.age = float(meta["loudest"]), int(meta["age"])
        self.wins = float(meta.get("wins", 0.0))


@kernel(reassociate=True)
def hear(far, mic, mics, rows, before, echoes, errors, now):
    """The errors of the five frames; the energies of the far end, of both current errors and of the microphone."""
    block = len(mic)
    played = main = shadow = heard = np.float32(0)
    for k in range(block):
        errors[MAIN, block + k] = mic[k] - echoes[MAIN, block + k]
        errors[SHADOW, block + k] = mic[k] - echoes[SHADOW, block + k]
    for k in range(block):
        errors[2, block + k] = mics[rows[2], k] - echoes[2, block + k]
        errors[3, block + k] = mics[rows[3], k] - echoes[3, block + k]
    for k in range(block):
        errors[LEFT, block + k] = before[k] - echoes[LEFT, block + k]
        before[k] = mic[k]
    for k in range(block, 2 * block):
        played += far[k] * far[k]
        main += errors[MAIN, k] * errors[MAIN, k]
        shadow += errors[SHADOW, k] * errors[SHADOW, k]
        heard += mic[k - block] * mic[k - block]
    now[0], now[1], now[2], now[3] = played, main, shadow, heard


@kernel(reassociate=True)
def smooth(noise, which, E, row, share):
    """Ψ += share·(|E|² − Ψ)."""
    for k in range(noise.shape[1]):
        e = E[row, k]
        noise[which, k] += share * (e.real * e.real + e.imag * e.imag - noise[which, k])


@kernel(reassociate=True)
def around(E, noise):
    """Ψ': |E|² of the older frames, the rows after the current ones, averaged over five bins."""
    filters, bins = noise.shape
    for i in range(filters):
        for k in range(bins):
            total = np.float32(0)
            for j in range(k - 2, k + 3):
                e = E[filters + i, min(max(j, 0), bins - 1)]
                total += e.real * e.real + e.imag * e.imag
            noise[i, k] = np.float32(0.2) * total


@kernel(reassociate=True)
def gradients(X, rows, C, noise, noise_share, older_noise, E, floor, S, between, G):
    """G = C·(conj(X)·z + conj(X')·z') for each filter, z and z' in the place of both frames' errors in E.

    Each inner loop writes few arrays: a compiler that must ask of too many whether they overlap takes one bin at a time.
    """
    smooth(noise, MAIN, E, MAIN, noise_share)
    smooth(noise, SHADOW, E, LEFT, noise_share)
    around(E, older_noise)
    filters, partitions, bins = C.shape
    half, one = np.float32(0.5), np.float32(1)
    for i in range(filters):
        other = filters + i
        for k in range(bins):
            S[i, k], S[other, k] = max(noise[i, k], floor), max(older_noise[i, k], floor)
            between[i, k] = 0
        for p in range(partitions):
            row, old = (rows[i] + p) % X.shape[0], (rows[other] + p) % X.shape[0]
            for k in range(bins):
                x, o, c = X[row, k], X[old, k], half * C[i, p, k]
                S[i, k] += (x.real * x.real + x.imag * x.imag) * c
                S[other, k] += (o.real * o.real + o.imag * o.imag) * c
            for k in range(bins):
                between[i, k] += X[row, k] * np.conj(X[old, k]) * (half * C[i, p, k])
        if rows[other] == rows[i]:  # there is no older frame
            for k in range(bins):
                E[i, k] *= one / S[i, k]
                E[other, k] = 0
        else:
            for k in range(bins):
                b, older = between[i, k], one / S[other, k]
                share = b * older
                rest = max(S[i, k] - (share.real * b.real + share.imag * b.imag), noise[i, k], floor)
                z = (E[i, k] - share * E[other, k]) * (one / rest)
                E[i, k], E[other, k] = z, (E[other, k] - np.conj(b) * z) * older
        for p in range(partitions):
            row, old = (rows[i] + p) % X.shape[0], (rows[other] + p) % X.shape[0]
            for k in range(bins):
                G[i, p, k] = (np.conj(X[row, k]) * E[i, k] + np.conj(X[old, k]) * E[other, k]) * C[i, p, k]


@kernel(reassociate=True)
def update(X, newest, W, C, step, S, keep, beta, surest, gain, decay, left):
    """W += step, then C ← A²(1 − β·½μ|X|²)C + (1 − A²)|W|², the shadow's above its least; what it now predicts."""
    filters, partitions, bins = C.shape
    one, none = np.float32(1), np.float32(0)
    for k in range(bins):
        left[k] = 0
    for i in range(filters):
        keep2 = keep[i] * keep[i]
        half_beta = np.float32(0.5) * beta[i]
        for p in range(partitions):
            row = (newest + p) % X.shape[0]
            least = surest * decay[p] if i == SHADOW else none
            for k in range(bins):
                w = W[i, p, k] + step[i, p, k]
                W[i, p, k] = w
                x = X[row, k]
                c = C[i, p, k]
                shrink = one - half_beta * c / S[i, k] * (x.real * x.real + x.imag * x.imag)
                c = keep2 * shrink * c + (one - keep2) * (w.real * w.real + w.imag * w.imag)
                C[i, p, k] = max(c, least * gain[k])
            if i == SHADOW:
                for k in range(bins):
                    left[k] += X[row, k] * W[i, p, k]

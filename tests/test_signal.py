"""Adaptive filters: the theorem, the same bits in any blocks, silence, square waves, save and resume, no allocation."""

from __future__ import annotations

import copy
import itertools
import pathlib
import pickle
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trueline as tl
from trueline.errors import DataError, ModelError, UsageError
from trueline.signal.material import scene
from trueline.signal.voices import Dice

TIME = [("lms", {"rate": 0.02}), ("nlms", {}), ("apa", {"order": 3}), ("rls", {})]
FREQUENCY = [("fdaf", {"block": 16}), ("kalman", {"block": 16})]
ALL = TIME + FREQUENCY
names = [method for method, _ in ALL]
TAPS = 24
GOLDEN = pathlib.Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def speech():
    made = scene("double_talk", "booth", seconds=1.0, rate=8000, seed=5)
    return made.far.astype(np.float32), made.mic.astype(np.float32)


def made(method, options, taps=TAPS):
    return tl.AdaptiveFilter(taps, method, **options)


def in_pieces(adaptive, far, mic, cuts):
    edges = [0, *sorted(set(cuts)), len(far)]
    return np.concatenate([adaptive.process(far[a:b], mic[a:b]) for a, b in itertools.pairwise(edges)])


@pytest.mark.parametrize(("method", "options"), TIME, ids=names[:4])
@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(1, 699), max_size=12))
def test_time_domain_methods_give_the_same_bits_in_any_blocks(speech, method, options, cuts):
    far, mic = speech[0][:700], speech[1][:700]
    whole, cut = made(method, options), made(method, options)
    assert whole.process(far, mic).tobytes() == in_pieces(cut, far, mic, cuts).tobytes()
    assert whole.impulse_response.tobytes() == cut.impulse_response.tobytes()


@pytest.mark.parametrize(("method", "options"), ALL, ids=names)
def test_one_sample_at_a_time(speech, method, options):
    far, mic = speech[0][:300], speech[1][:300]
    whole, single = made(method, options), made(method, options)
    expected = whole.process(far, mic)
    got = np.array([single.process(f, m) for f, m in zip(far.tolist(), mic.tolist())])
    tolerance = 0 if (method, options) in TIME else 1e-5
    assert np.abs(got - expected).max() <= tolerance
    # Inside a frame the weights stand still, so what was learned is the same to the last bit.
    assert whole.impulse_response.tobytes() == single.impulse_response.tobytes()


@pytest.mark.parametrize(("method", "options"), FREQUENCY, ids=names[4:])
@settings(max_examples=10, deadline=None)
@given(cuts=st.lists(st.integers(1, 1999), max_size=8))
def test_frequency_domain_methods_do_not_depend_on_blocks(speech, method, options, cuts):
    far, mic = speech[0][:2000], speech[1][:2000]
    whole, cut = made(method, options), made(method, options)
    assert np.abs(whole.process(far, mic) - in_pieces(cut, far, mic, cuts)).max() < 1e-5


def test_a_buffer_that_starts_again_at_its_front_changes_nothing():
    noise = Dice(3).gaussian(60_000).astype(np.float32)  # several times the buffer
    room = np.array([0.5, -0.2, 0.1])
    mic = np.convolve(noise, room)[: len(noise)].astype(np.float32)
    filters = [tl.AdaptiveFilter(3, "nlms") for _ in range(2)]
    left = filters[0].process(noise, mic)
    assert left.tobytes() == in_pieces(filters[1], noise, mic, range(997, 60_000, 997)).tobytes()
    assert np.abs(filters[0].impulse_response - room).max() < 1e-4


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    kappa=st.floats(0.02, 0.98),
    shape=st.sampled_from(["speech", "square", "tone", "noise"]),
)
def test_the_lms_bound_holds(speech, seed, kappa, shape):
    """Real signals, scaled so that κ = rate·max‖x‖² is what the theorem allows; an adversarial microphone."""
    dice = Dice(seed)
    n = 600
    far = {
        "speech": speech[0][seed % 4000 :][:n],
        "square": np.sign(np.sin(0.05 * (1 + seed % 7) * np.arange(n) + 1e-3)),
        "tone": np.sin(0.3 * np.arange(n)),
        "noise": dice.gaussian(n),
    }[shape].astype(np.float32)
    mic = np.convolve(far, dice.gaussian(6))[:n] * dice.uniform(-1, 1) + dice.uniform() * dice.gaussian(n)
    mic[:: 1 + seed % 5] *= -1
    windows = np.convolve(far.astype(float) ** 2, np.ones(TAPS))[:n]
    rate = kappa / max(windows.max(), 1e-9)
    lms = tl.AdaptiveFilter(TAPS, "lms", rate=rate, certify=True)
    errors = lms.process(far, mic.astype(np.float32))
    proof = lms.certificate()
    assert proof.loss == pytest.approx(float((errors.astype(float) ** 2).sum()), rel=1e-5)
    assert proof.proven and proof.loss <= proof.bound * (1 + 1e-5)
    assert proof.assumptions[0].worst == pytest.approx(rate * windows.max(), rel=1e-5)
    assert proof.best_fixed_loss <= proof.bound


def test_the_comparator_comes_from_near_toeplitz_sums(speech):
    far, mic = (sound[:1500].astype(float) for sound in speech)
    lms = tl.AdaptiveFilter(TAPS, "lms", rate=0.01, certify=True)
    in_pieces(lms, far, mic, range(77, 1500, 77))
    proof = lms.certificate()
    single = np.float32(far).astype(float)
    padded = np.concatenate([np.zeros(TAPS - 1), single])
    X = np.lib.stride_tricks.sliding_window_view(padded, TAPS)[:, ::-1]
    best, *_ = np.linalg.lstsq(X, np.float32(mic).astype(float), rcond=None)
    least = float(((X @ best - np.float32(mic)) ** 2).sum())
    assert proof.best_fixed_loss == pytest.approx(least, rel=1e-6)
    assert proof.regret == pytest.approx(proof.loss - least, rel=1e-5)
    other = proof.bound_comparator
    kappa = proof.assumptions[0].worst
    claimed = float(((X @ other - np.float32(mic)) ** 2).sum()) / (1 - kappa) + float(other @ other) / 0.01
    assert proof.bound == pytest.approx(claimed, rel=1e-6)


def test_a_rate_beyond_the_theorem_is_void_and_recovers():
    far = Dice(1).gaussian(3000).astype(np.float32)
    lms = tl.AdaptiveFilter(8, "lms", rate=5.0, certify=True)
    left = lms.process(far, 0.5 * far)
    proof = lms.certificate()
    assert not proof.proven and proof.status.value == "void" and "rate" in proof.advice
    assert np.isfinite(left).all() and lms.resets > 0


def test_the_normalised_bound_against_silence(speech):
    nlms = tl.AdaptiveFilter(TAPS, "nlms", rate=0.6)
    nlms.process(*speech)
    proof = nlms.certificate()
    assert proof.proven and proof.loss <= proof.bound
    assert not tl.AdaptiveFilter(8, "kalman").certificate().proven
    assert "certify" in tl.AdaptiveFilter(8, "lms", rate=0.1).certificate().advice


@pytest.mark.parametrize(("method", "options"), ALL, ids=names)
def test_silence_in_silence_out(speech, method, options):
    far, mic = speech[0][:900], speech[1][:900]
    nothing = np.zeros_like(far)
    quiet_mic = made(method, options)
    assert not quiet_mic.process(far, nothing).any() and not quiet_mic.impulse_response.any()
    quiet_far = made(method, options)
    assert np.array_equal(quiet_far.process(nothing, mic).astype(np.float32), mic)
    both = made(method, options)
    both.process(far, mic)
    both.process(nothing, nothing)
    tail = both.process(nothing, nothing)
    assert np.isfinite(tail).all() and np.abs(tail).max() < 1e-6
    assert np.isfinite(both.impulse_response).all()


@pytest.mark.parametrize(("method", "options"), ALL, ids=names)
@pytest.mark.parametrize("scale", [1.0, 32767.0, 1e-4])
def test_full_scale_square_waves_stay_finite(method, options, scale):
    far = scale * np.where(np.arange(3000) // 25 % 2, 1.0, -1.0).astype(np.float32)
    mic = -np.roll(far, 3)
    options = {"rate": 0.02 / scale**2} if method == "lms" else options
    adaptive = made(method, options)
    left = adaptive.process(far, mic)
    assert np.isfinite(left).all() and np.isfinite(adaptive.impulse_response).all()
    if scale >= 1:  # below −80 dB nlms's epsilon, meant for sound in [−1, 1], holds it back
        assert np.mean(left[-500:] ** 2) < 0.1 * np.mean(mic**2)


@pytest.mark.parametrize(("method", "options"), [*ALL, ("lms", {"rate": 0.02, "certify": True})])
def test_saved_and_resumed_is_never_having_stopped(speech, method, options, tmp_path):
    far, mic = speech[0][:1200], speech[1][:1200]
    whole, half = made(method, options), made(method, options)
    expected = whole.process(far, mic)[501:]
    half.process(far[:501], mic[:501])
    half.save(tmp_path / "room.tl")
    resumed = tl.load(tmp_path / "room.tl")
    assert resumed.samples == 501
    after = resumed.process(far[501:], mic[501:])
    exact = half.process(far[501:], mic[501:])
    assert after.tobytes() == exact.tobytes()
    if (method, options) not in FREQUENCY:
        assert after.tobytes() == expected.tobytes()
        assert str(resumed.certificate()) == str(whole.certificate())
    assert resumed.impulse_response.tobytes() == whole.impulse_response.tobytes()


def test_a_filter_saved_long_ago_goes_on(speech):
    """tests/golden/room_2.tl was saved after 4,001 samples, by the code of its day; room.tl before frames were kept."""
    far, mic = speech
    resumed = tl.load(GOLDEN / "room_2.tl")
    assert resumed.method == "kalman" and resumed.samples == 4001
    left = resumed.process(far[4001:], mic[4001:])
    fresh = tl.AdaptiveFilter(TAPS, "kalman", block=16)
    assert np.allclose(fresh.process(far, mic)[4001:], left, atol=1e-4) and fresh.impulse_response.any()
    assert np.allclose(fresh.impulse_response, resumed.impulse_response, atol=1e-4)
    older = tl.load(GOLDEN / "room.tl")
    assert older.samples == 600
    assert (older.process(far[600:4000], mic[600:4000]) ** 2).sum() < 0.7 * (mic[600:4000] ** 2).sum()


def spectra_of(dice, *shape):
    """Complex noise."""
    parts = [dice.gaussian(int(np.prod(shape))).reshape(shape).astype(np.float32) for _ in range(2)]
    return (parts[0] + 1j * parts[1]).astype(np.complex64)


def filled_pair(dice, partitions, block):
    """Two Kalman filters in the middle of learning: (pair, W, C, noise), the last three its own arrays."""
    from trueline.echo.kalman_filter import FilterPair

    pair = FilterPair(block, partitions, 0.02)
    W, C, noise = np.asarray(pair.W), np.asarray(pair.C), np.asarray(pair.noise)
    W[:], C[:] = spectra_of(dice, *W.shape), np.abs(spectra_of(dice, *W.shape)) ** 2
    noise[:] = np.abs(spectra_of(dice, *noise.shape)) ** 2 + np.float32(0.1)
    return pair, W, C, noise


def test_two_frames_are_answered_as_one_system():
    """The step of the compiled loop is C·Xᴴz with z from a dense solver, for a filter with an older frame and one without."""
    dice, partitions, bins, ring = Dice(4), 3, 9, 7
    pair, _, C, current = filled_pair(dice, partitions, bins - 1)
    X, E = spectra_of(dice, ring, bins), spectra_of(dice, 5, bins)
    pair.around(E)
    older, power = np.asarray(pair.older_noise), np.abs(E[2]) ** 2
    assert older[0, 4] == pytest.approx(power[2:7].mean(), rel=1e-5)
    assert older[0, 0] == pytest.approx((3 * power[0] + power[1] + power[2]) / 5, rel=1e-5)
    pair.noise_share, expected = 0.25, current.copy()
    expected += pair.noise_share * (
        np.abs(E[[0, 4]]) ** 2 - expected
    )  # main: this frame; shadow: what it left of the last
    rows, errors = np.asarray(pair.rows), E.copy()
    rows[:] = 5, 5, 1, 5
    pair.gradients(X, E)
    assert np.allclose(current, expected, rtol=1e-5)
    for i, first in enumerate(rows[2:]):
        frames = [X[(start + np.arange(partitions)) % ring] for start in (5, first)][: 2 if first != 5 else 1]
        for k in range(bins):
            A = np.array([[0.5 * np.sum(a[:, k] * C[i, :, k] * np.conj(b[:, k])) for b in frames] for a in frames])
            A += np.diag([current[i, k], older[i, k]][: len(frames)])
            z = np.linalg.solve(A, errors[[i, 2 + i][: len(frames)], k])
            step = C[i, :, k] * sum(np.conj(a[:, k]) * value for a, value in zip(frames, z))
            assert np.allclose(np.asarray(pair.G)[i, :, k], step, rtol=1e-3, atol=1e-4)


def test_the_shadow_says_what_it_predicts_once_it_has_learned():
    dice, ring, newest, surest = Dice(6), 5, 4, 0.5
    pair, W, C, _ = filled_pair(dice, 3, 8)
    X, before = spectra_of(dice, ring, 9), C.copy()
    S, gain, decay, keep, beta = map(np.asarray, (pair.S, pair.gain, pair.decay, pair.keep, pair.beta))
    S[:], gain[:] = np.abs(spectra_of(dice, 4, 9)) ** 2 + np.float32(9), np.abs(spectra_of(dice, 9)) ** 2
    keep[:] = 0.9, 0.8
    pair.update(X, newest, surest)
    frames = X[(newest + np.arange(3)) % ring]
    assert np.allclose(np.asarray(pair.Y)[4], (frames * W[1]).sum(axis=0), rtol=1e-4, atol=1e-4)
    for i, least in enumerate((0 * gain, surest * gain)):
        shrunk = keep[i] ** 2 * (1 - beta[i] * 0.5 * before[i] / S[i] * np.abs(frames) ** 2) * before[i]
        expected = np.maximum(shrunk + (1 - keep[i] ** 2) * np.abs(W[i]) ** 2, decay[:, None] * least)
        assert np.allclose(C[i], expected, rtol=1e-3, atol=1e-5)


def test_remembered_frames_are_given_again_as_they_were():
    from trueline.echo.frequency_domain import Spectra

    class Watch:
        def __init__(self):
            self.seen = {}

        def output(self, spectra):
            return np.zeros(spectra.block, np.float32)

        def learn(self, spectra, mic):
            row = spectra.older(8)
            if row != spectra.newest:
                age = (row - spectra.newest) % len(spectra.X)
                assert 1 <= age <= 8
                number = spectra.frames - age
                assert np.all(spectra.mics[row] == number) and np.allclose(spectra.X[row], self.seen[number])
            self.seen[spectra.frames] = spectra.X[spectra.newest].copy()
            self.given = row != spectra.newest
            if spectra.frames % 3:
                spectra.remember()

    spectra, watch = Spectra(4, 2, memory=8), Watch()
    for number in range(1, 60):
        block = np.full(4, number, np.float32)
        spectra.process(watch, Dice(number).gaussian(4).astype(np.float32), block, np.zeros(4, np.float32))
        assert len(spectra.loud) <= 8 and watch.given == (number > 1)
    spectra.silence()
    assert spectra.older(8) == spectra.newest


@pytest.mark.parametrize("lost", ["age", "gain", "next"])
def test_a_filter_of_another_version_is_refused_in_a_sentence(tmp_path, lost):
    from trueline.modelfile import read, write

    kind, arrays, meta = read(GOLDEN / "room.tl")
    arrays.pop(lost, None), meta["core"].pop(lost, None)
    write(tmp_path / "old.tl", kind, arrays, meta)
    refusal = "its array 'gain' is missing" if lost == "gain" else "an adaptive filter of another version of trueline"
    with pytest.raises(ModelError, match=refusal):
        tl.load(tmp_path / "old.tl")


@pytest.mark.parametrize(("method", "options"), TIME, ids=names[:4])
def test_no_array_is_made_after_the_first_block(speech, method, options):
    far, mic = speech[0][:4096].copy(), speech[1][:4096].copy()
    adaptive, out = made(method, options), np.zeros(4096, np.float32)
    for _ in range(300):  # fills Python's own free lists of small tuples and floats; arrays are what is looked for
        adaptive.process(far[:16], mic[:16], out[:16])
    adaptive.process(far, mic, out)
    tracemalloc.start()
    try:
        adaptive.process(far, mic, out)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(12):  # the ring is used up at least twice
            adaptive.process(far, mic, out)
        grown = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert grown < 4096  # one array of flags would be 4,096 bytes, of samples 16,384


def test_recursive_least_squares_finds_the_room_and_survives_silence():
    noise = Dice(9).gaussian(1500)
    room = np.exp(-np.arange(TAPS) / 6.0) * np.cos(np.arange(TAPS))
    far = np.concatenate([noise, np.zeros(3000)])
    mic = np.convolve(far, room)[: len(far)]
    for method, least in (("rls", 1e-6), ("apa", 1e-3)):
        adaptive = tl.AdaptiveFilter(TAPS, method)
        adaptive.process(far, mic)
        assert np.abs(adaptive.impulse_response - room).max() < least


@pytest.mark.parametrize(("method", "options"), ALL, ids=names)
def test_a_copy_goes_on_by_itself(speech, method, options):
    far, mic = speech
    adaptive = made(method, options)
    adaptive.process(far[:777], mic[:777])
    copies = [copy.deepcopy(adaptive), pickle.loads(pickle.dumps(adaptive))]
    left = adaptive.process(far[777:1500], mic[777:1500])
    for copied in copies:
        assert copied.process(far[777:1500], mic[777:1500]).tobytes() == left.tobytes() and copied.samples == 1500


def test_counts_that_no_filter_reaches_are_refused():
    arrays, meta = tl.AdaptiveFilter(4, "nlms").to_state()
    with pytest.raises(ModelError, match="another version"):
        tl.AdaptiveFilter.from_state({**arrays, "running": np.array([0.0, 1e300])}, meta)
    with pytest.raises(ModelError, match="another version"):
        tl.AdaptiveFilter.from_state(arrays, {**meta, "core": {"resets": 10**30}})


def test_no_filter_imports_a_compiler():
    code = (
        "import sys, numpy as np, trueline as tl\n"
        "x = np.cos(0.01 * np.arange(8000.0) ** 1.5); y = 0.5 * np.roll(x, 2)\n"
        "for method in ('lms', 'nlms', 'apa', 'rls', 'fdaf', 'kalman'):\n"
        "    options = {'rate': 0.01, 'certify': True} if method == 'lms' else {}\n"
        "    adaptive = tl.AdaptiveFilter(6, method, **options)\n"
        "    adaptive.process(x, y), adaptive.process(0.5, 0.5), adaptive.certificate(), adaptive.impulse_response\n"
        "    tl.AdaptiveFilter.from_state(*adaptive.to_state())\n"
        "tl.cancel_echo(x, y, 8000.0, tail=0.1)\n"
        "print(*{'numba', 'llvmlite'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr


def test_refusals_change_nothing():
    adaptive = tl.AdaptiveFilter(4, "nlms")
    x = np.ones(5)
    adaptive.process(x, x)
    before = adaptive.impulse_response
    bad = np.array([1.0, 2.0, np.nan, 1.0, 1.0])
    for far, mic, words in (
        (bad, x, "far has a sample that is not a finite number: nan at 2"),
        (x, -bad * np.inf, "mic"),
        (x, x[:4], "5 samples but mic has 4"),
        (np.ones((5, 2)), x, "2 channels; choose one"),
        (np.array(["a"] * 5), x, "not numbers"),
    ):
        with pytest.raises(DataError, match=words):
            adaptive.process(far, mic)
    assert np.array_equal(adaptive.impulse_response, before) and adaptive.samples == 5


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((4, "lmss"), {}, "did you mean 'lms'"),
        ((4, "lms"), {}, "needs a rate"),
        ((0, "nlms"), {}, "taps must be a whole number"),
        ((4.5, "nlms"), {}, "taps"),
        ((4, "nlms"), {"rate": -1}, "rate must be a positive number"),
        ((4, "kalman"), {"rate": 0.1}, "does not use rate"),
        ((4, "rls"), {"forgetting": 1.5}, "forgetting"),
        ((4, "nlms"), {"dtype": "int8"}, "dtype"),
        ((4, "apa"), {"order": 0}, "order"),
    ],
)
def test_wrong_calls_are_refused_in_a_sentence(arguments, options, words):
    with pytest.raises(UsageError, match=words):
        tl.AdaptiveFilter(*arguments, **options)

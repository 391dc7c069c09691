"""cancel_echo and ``trueline echo``: rooms with known truth, warnings, refusals, files in flat memory."""

from __future__ import annotations

import json
import tracemalloc
import warnings

import numpy as np
import pytest

import trueline as tl
from trueline.cli import main
from trueline.errors import DataError, UsageError
from trueline.signal.delay import FOUND, Delay
from trueline.signal.drift import warp
from trueline.signal.echo import EchoCanceller, EchoWarning
from trueline.signal.files import cancel_files
from trueline.signal.material import KINDS, scene, stranger
from trueline.signal.rooms import ROOMS, respond
from trueline.signal.voices import speak

soundfile = pytest.importorskip("soundfile")
RATE = 8000


def decibels(above, below):
    return 10 * np.log10((above**2).sum() / (below**2).sum())


def made(kind, seconds=8.0, **more):
    return scene(kind, "booth", seconds=seconds, rate=RATE, **more)


def quietly(scene_, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EchoWarning)
        return tl.cancel_echo(scene_.far, scene_.mic, scene_.rate, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_scenes_are_reproducible_and_add_up(kind):
    one, two = made(kind, 3.0), made(kind, 3.0)
    assert one.mic.tobytes() == two.mic.tobytes() and one.far.tobytes() == two.far.tobytes()
    assert np.abs(one.mic).max() <= 1 and one.far.std() > 0.02
    if kind != "clipping":
        rest = one.mic - one.echo - one.near
        assert 20 < decibels(one.echo, rest) < 70


def test_the_voices_do_not_change():
    """The raw stream of PCG64 is promised by NumPy; the rest is arithmetic here."""
    sound = speak("alto", 0.5, RATE, seed=1)
    assert len(sound) == 4000 and np.abs(sound).max() == 0.5
    assert float((sound**2).sum()) == pytest.approx(49.017, abs=0.002)


def test_rooms_ring_as_long_as_they_should():
    for name, room in ROOMS.items():
        response = respond(name, RATE, 1.2 * room.reverberation)
        to_come = np.cumsum(response[::-1] ** 2)[::-1]
        level = 10 * np.log10(to_come / to_come[0])
        fall = (np.searchsorted(-level, 25) - np.searchsorted(-level, 5)) / RATE
        assert fall == pytest.approx(room.reverberation / 3, rel=0.2)
        distance = np.linalg.norm(np.subtract(room.speaker, room.microphone))
        first = np.argmax(np.abs(response) > 0.3 * np.abs(response).max())
        assert abs(first - distance / 343 * RATE) <= 2


def test_echo_alone_goes_and_the_room_is_learned():
    truth = made("echo_only", delay=0.1)
    result = quietly(truth, tail=0.16)
    half = len(truth.mic) // 2
    assert decibels(truth.mic[half:], result.clean[half:]) > 25
    assert result.delay == pytest.approx(0.1, abs=0.005) and result.warnings == ()
    assert np.allclose(result.clean + result.echo, truth.mic)
    assert len(result.erle) == len(result.double_talk) == -(-len(truth.mic) // result.block)
    assert result.converged_erle > 25 and not result.double_talk[len(result.double_talk) // 2 :].mean() > 0.05
    learned, real = result.impulse_response, np.concatenate([np.zeros(round(0.1 * RATE)), truth.response])
    size = min(len(learned), len(real))
    assert decibels(real[:size], learned[:size] - real[:size]) > 15


def test_double_talk_is_flagged_and_does_no_harm():
    truth = made("double_talk", 12.0)
    result = quietly(truth, tail=0.16)
    half = len(truth.mic) // 2
    assert decibels(truth.near[half:], (result.clean - truth.near)[half:]) > 20
    flags = result.double_talk
    assert flags[len(flags) // 2 :].mean() > 0.6 > 0.3 > flags[len(flags) // 4 : len(flags) // 2].mean()


def test_a_room_that_booms_is_learned_too():
    """Without a high-pass the response's gain at 0 Hz is far above its mean, which each bin's own prior allows for."""
    truth = scene("echo_only", ROOMS["booth"]._replace(lowest=0.0), "bass", seconds=8.0, rate=RATE)
    half = len(truth.mic) // 2
    assert decibels(truth.mic[half:], quietly(truth, tail=0.16).clean[half:]) > 25


def test_a_near_end_of_the_far_ends_pitch_does_not_replace_the_filter():
    """The shadow follows the near end's harmonics with the far end's; the main filter must not become the shadow."""
    room, far_voice, near_voice, delay = stranger(113)
    truth = scene("double_talk", room, far_voice, near_voice, seed=113, delay=delay)
    result = quietly(truth)
    half = len(truth.mic) // 2
    assert decibels(truth.near[half:], (result.clean - truth.near)[half:]) > 22


def test_older_frames_teach_a_high_voice_the_room():
    """Few harmonics a frame: by the current frame alone (β and priors the same) this scene stays below 40 dB."""
    truth = scene("echo_only", "office", "alto")
    half = len(truth.mic) // 2
    assert decibels(truth.mic[half:], quietly(truth).clean[half:]) > 45


def test_a_new_path_is_learned_again():
    truth = made("path_change", 12.0)
    result = quietly(truth, tail=0.16)
    last = slice(-2 * RATE, None)
    assert decibels(truth.mic[last], result.clean[last]) > 20
    change = len(truth.mic) // 2
    assert decibels(truth.mic[change:], result.clean[change:]) > 3  # it never makes things worse for long
    assert not any("drift" in line for line in result.warnings)


def test_a_second_pass_starts_converged():
    truth = made("echo_only")
    once, twice = quietly(truth, tail=0.16), quietly(truth, tail=0.16, passes=2)
    assert decibels(truth.mic[:RATE], twice.clean[:RATE]) > decibels(truth.mic[:RATE], once.clean[:RATE]) + 10


def test_drift_is_found_and_corrected():
    truth = made("drift", 20.0, drift=60.0)
    with pytest.warns(EchoWarning, match=r"drift by \+(59|60|61) parts"):
        plain = tl.cancel_echo(truth.far, truth.mic, RATE, tail=0.16)
    corrected = quietly(truth, tail=0.16, correct_drift=True)
    assert corrected.converged_erle > plain.converged_erle + 6
    assert np.abs(warp(truth.far, 0.0) - truth.far).max() < 1e-12


def test_clipping_silence_strangers_and_other_rates_are_told():
    clipped = made("clipping", 5.0)
    with pytest.warns(EchoWarning, match="mic is clipped"):
        tl.cancel_echo(clipped.far, clipped.mic, RATE, tail=0.1)
    truth = made("echo_only")
    with pytest.warns(EchoWarning, match="far is silent"):
        result = tl.cancel_echo(np.zeros_like(truth.far), truth.mic, RATE, tail=0.1)
    assert np.array_equal(result.clean, np.float32(truth.mic).astype(float))
    with pytest.warns(EchoWarning, match="no echo of far"):
        tl.cancel_echo(truth.far, speak("bass", 8.0, RATE, 77), RATE, tail=0.1)
    at = np.arange(0, len(truth.mic), 48_000 / 44_100)
    slow = np.interp(at, np.arange(len(truth.mic)), truth.mic)  # recorded at 44,100 where far has 48,000
    with pytest.warns(EchoWarning, match="44100 Hz against 48000 Hz|48000 Hz against 44100 Hz"):
        tl.cancel_echo(truth.far[: len(slow)], slow, RATE, tail=0.1)


@pytest.mark.parametrize("lag", [-700, 0, 35, 3000])
def test_the_delay_is_found_either_way(lag):
    far = speak("tenor", 6.0, RATE, 4)
    room = respond("booth", RATE)
    mic = np.roll(np.convolve(far, room)[: len(far)], lag)
    finder = Delay(RATE)
    for start in range(0, len(far), 1234):
        finder.add(far[start : start + 1234], mic[start : start + 1234])
    found, strength = finder.estimate()
    assert strength > FOUND and abs(found - lag - np.abs(room).argmax()) <= 2
    stranger = Delay(RATE)
    stranger.add(far, speak("child", 6.0, RATE, 8))
    assert stranger.estimate()[1] < FOUND


@pytest.mark.parametrize("later", [0.0055, 0.015])
def test_a_first_arrival_softer_than_a_later_one_is_not_cut_off(later):
    far = speak("tenor", 6.0, RATE, 4)
    room = np.zeros(800)
    room[[40, 40 + round(later * RATE)]] = 0.3, 0.5
    mic = np.convolve(far, room)[: len(far)]
    finder = Delay(RATE)
    finder.add(far, mic)
    assert abs(finder.estimate()[0] - 40 - round(later * RATE)) <= 1  # the peak, which drift is measured on
    assert abs(finder.onset() - 40) <= 1
    result = tl.cancel_echo(far, np.roll(mic, 1600), RATE, tail=0.1)
    assert abs(result.delay - 1640 / RATE) < 1e-3 and result.converged_erle > 30


def test_sound_card_blocks_are_as_good_as_the_whole():
    truth = made("echo_only", 4.0)
    far, mic = truth.far.astype(np.float32), truth.mic.astype(np.float32)
    whole = EchoCanceller(RATE, 0.1).process(far, mic)
    blocks = EchoCanceller(RATE, 0.1)
    pieces = [blocks.process(far[i : i + 80], mic[i : i + 80]) for i in range(0, len(far), 80)]
    assert np.abs(np.concatenate(pieces) - whole).max() < 1e-5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"far": np.zeros(0), "mic": np.zeros(0)}, "far has no samples"),
        ({"mic": np.zeros(50)}, "8000 samples but mic has 50"),
        ({"far": np.zeros((8000, 2))}, "2 channels; choose one"),
        ({"tail": 2.0}, "longer than the recording"),
        ({"tail": -1}, "tail must be"),
        ({"rate": 0}, "rate must be"),
        ({"mic": np.full(8000, np.nan)}, "not a finite number: nan at 0"),
        ({"passes": 3}, "passes must be 1 or 2"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(change, words):
    given = {"far": np.ones(8000), "mic": np.ones(8000), "rate": RATE, "tail": 0.1} | change
    with pytest.raises((DataError, UsageError), match=words):
        tl.cancel_echo(**given)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    truth = made("echo_only", delay=0.05)
    soundfile.write(folder / "far.wav", truth.far, RATE)
    soundfile.write(folder / "mic.flac", truth.mic, RATE)
    soundfile.write(folder / "both.wav", np.stack([truth.far, truth.mic], 1), RATE, subtype="FLOAT")
    soundfile.write(folder / "other.wav", truth.mic, 16_000)
    soundfile.write(folder / "short.wav", truth.mic[:4000], RATE)
    soundfile.write(folder / "empty.wav", truth.mic[:0], RATE)
    (folder / "text.wav").write_text("not sound")
    return folder


def test_the_command_cancels_draws_and_reports(files, tmp_path, capsys):
    clean, picture = tmp_path / "clean.wav", tmp_path / "echo.png"
    call = ["echo", str(files / "far.wav"), str(files / "mic.flac"), "-o", str(clean), "--tail", "120ms"]
    assert main([*call, "--plot", str(picture), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["erle"]["converged"] > 20 and report["delay"] == pytest.approx(0.05, abs=0.005)
    assert report["echo_return_loss"]["after"] > report["echo_return_loss"]["before"] + 20
    sound, rate = soundfile.read(clean)
    heard, _ = soundfile.read(files / "mic.flac")
    assert rate == RATE and len(sound) == len(heard) and decibels(heard[-RATE:], sound[-RATE:]) > 20
    assert picture.read_bytes()[:4] == b"\x89PNG" and sorted(p.name for p in tmp_path.iterdir()) == [
        "clean.wav",
        "echo.png",
    ]
    assert main(call) == 0
    told = capsys.readouterr().out
    assert "dB before" in told and "real time" in told and max(map(len, told.splitlines()[:5])) <= 80


@pytest.mark.parametrize(
    ("name", "subtype"),
    [("x.wav", "PCM_16"), ("x.wav", "PCM_24"), ("x.wav", "PCM_32"), ("x.wav", "FLOAT"), ("x.wav", "DOUBLE"),
     ("x.flac", "PCM_16"), ("x.flac", "PCM_24")],
)  # fmt: skip
def test_every_common_kind_of_file_is_read_and_kept(files, tmp_path, name, subtype):
    for role in ("far.wav", "mic.flac"):
        sound, _ = soundfile.read(files / role, frames=2 * RATE)
        soundfile.write(tmp_path / f"{role}_{name}", sound, RATE, subtype=subtype)
    clean = tmp_path / f"clean_{name}"
    cancel_files(str(tmp_path / f"far.wav_{name}"), str(tmp_path / f"mic.flac_{name}"), str(clean), tail=0.12)
    assert soundfile.info(clean).subtype == subtype
    heard, sound = soundfile.read(files / "mic.flac", frames=2 * RATE)[0], soundfile.read(clean)[0]
    assert decibels(heard[RATE:], sound[RATE:]) > 10


def test_the_demo_makes_a_pair_and_cleans_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["echo", "--demo", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["erle"]["converged"] > 20 and "made far.wav and mic.wav" in said.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["clean.wav", "far.wav", "mic.wav"]
    assert main(["echo", "--demo"]) == 2
    assert "far.wav is already there" in capsys.readouterr().err
    assert main(["echo"]) == 2 and main(["echo", "far.wav"]) == 2
    assert capsys.readouterr().err.count("give two recordings, far and mic, or --demo") == 2
    assert main(["echo", "far.wav", "mic.wav", "--demo"]) == 2
    assert "give no files with it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["none.wav", "mic.flac"], 3, "there is no file"),
        (["text.wav", "mic.flac"], 3, "not a sound file"),
        (["both.wav", "mic.flac"], 3, "2 channels; choose one with --channel 1"),
        (["both.wav", "mic.flac", "--channel", "3"], 2, "no channel 3"),
        (["far.wav", "other.wav"], 3, "8000 samples per second but"),
        (["far.wav", "short.wav"], 3, "--shortest"),
        (["empty.wav", "empty.wav"], 3, "no samples"),
        (["far.wav", "mic.flac", "--tail", "9s"], 3, "longer than the recording"),
        (["far.wav", "mic.flac", "--tail", "long"], 2, "--tail takes a time"),
        (["far.wav", "mic.flac", "-o", "x.doc"], 2, "must end in .wav or .flac"),
        (["far.wav", "mic.flac", "-o", "no/such/x.wav"], 2, "there is no folder"),
    ],
)
def test_the_command_refuses_in_a_sentence(files, capsys, monkeypatch, arguments, code, words):
    monkeypatch.chdir(files)
    before = sorted(p.name for p in files.iterdir())
    assert main(["echo", *arguments]) == code
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
    assert sorted(p.name for p in files.iterdir()) == before


def test_what_was_not_found_is_not_told(files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    soundfile.write("still.wav", np.zeros(2 * RATE), RATE)
    assert main(["echo", "still.wav", "still.wav"]) == 0
    said = capsys.readouterr()
    assert "no echo was found" in said.out and "– dB before" in said.out and "is silent" in said.err
    assert main(["echo", "still.wav", "still.wav", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["delay"] is None and report["erle"]["converged"] is None
    assert main(["echo", "far.wav", "mic.wav", "-o", "late.wav", "--plot", "echo.doc"]) == 2
    assert not (files / "late.wav").exists() and ".png" in capsys.readouterr().err  # before any work


def test_channels_and_the_shorter_of_two(files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    assert main(["echo", "far.wav", "short.wav", "--shortest", "--tail", "50ms", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["seconds"] == 0.5
    assert main(["echo", "far.wav", "both.wav", "--channel", "2", "--tail", "50ms", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["erle"]["converged"] > 10


def test_memory_does_not_grow_with_the_recording(tmp_path):
    peaks = []
    noise = np.random.default_rng(0).normal(0, 0.1, 20 * RATE)
    for times in (1, 4):
        path = tmp_path / f"{times}.wav"
        soundfile.write(path, np.tile(noise, times), RATE)
        tracemalloc.start()
        cancel_files(str(path), str(path), str(tmp_path / "clean.wav"), tail=0.016)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.25 * peaks[0]


def test_drift_is_corrected_across_blocks_of_a_file(tmp_path):
    truth = made("drift", 20.0, drift=60.0)
    soundfile.write(tmp_path / "far.wav", truth.far, RATE, subtype="FLOAT")
    soundfile.write(tmp_path / "mic.wav", truth.mic, RATE, subtype="FLOAT")
    report = cancel_files(str(tmp_path / "far.wav"), str(tmp_path / "mic.wav"), None, tail=0.16, correct_drift=True)
    whole = quietly(truth, tail=0.16, correct_drift=True)
    assert report.drift == pytest.approx(whole.drift, abs=0.5)
    assert report.summary.converged == pytest.approx(whole.converged_erle, abs=1.0)
    assert report.warnings[-1].endswith("it was undone")

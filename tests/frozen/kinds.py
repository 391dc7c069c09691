"""The kinds of cases: each runs through a public door and gives rows, a quantity and its value each."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shlex
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from frozen import reading
from frozen.exports import run_export

LABELS = ("exit", "predict_exit", "evaluate_exit", "status", "error", "predict_error", "rows", "examples", "columns")
LABELS += ("positions", "replayed")
CHANCES = ("probability", "probabilities")


@dataclasses.dataclass(frozen=True)
class Row:
    """One recorded quantity. Numbers agree within ``tolerance`` × what ``relative_to`` names; others are equal.

    relative_to: "std_error" (of the same case's term), "size" (of each number itself), or a number, such as the
    spread of the predictions. ``at_most``: only a number above ``at_most`` × the recorded one counts.
    """

    case: str
    quantity: str
    value: Any
    tolerance: float | None = None
    relative_to: str | float | None = None
    at_most: float | None = None
    known_wrong: str | None = None


class Table:
    """The folder of a table, as cases see it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def frame(self) -> pl.DataFrame:
        return self.read("data.csv")

    def read(self, name: str) -> pl.DataFrame:
        return pl.read_csv(self.folder / name, infer_schema_length=None)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.frame[name].to_numpy()

    def X(self, *names: str) -> np.ndarray:
        """Columns of numbers as an array."""
        return self.frame.select(names).to_numpy().astype(float)


@dataclasses.dataclass(frozen=True)
class Case:
    name: str

    def rows(self, table: Table) -> list[Row]:
        """Run, and give every quantity with its tolerance."""
        values = {k: reading.plain(v) for k, v in self.run(table)}
        values = {k: v for k, v in values.items() if v not in (None, {})}
        return [self._row(k, v, values) for k, v in values.items()]

    def run(self, table: Table) -> Iterator[tuple[str, Any]]:
        raise NotImplementedError

    def _row(self, quantity: str, value: Any, values: dict[str, Any]) -> Row:
        tolerance = getattr(self, "tolerance", 1e-9)
        if quantity in LABELS:
            return Row(self.name, quantity, value)
        if quantity in ("cv_errors", "alpha"):
            return Row(self.name, quantity, value, max(tolerance, 1e-6), "size")
        if quantity in ("loss", "stream_errors"):
            return Row(self.name, quantity, value, at_most=1.05)
        if quantity == "coefficients" and isinstance(values.get("std_errors"), dict):
            return Row(self.name, quantity, value, tolerance, "std_error")
        if quantity in CHANCES or quantity == "replay_difference":
            return Row(self.name, quantity, value, tolerance, 1.0)
        if quantity.startswith(("prediction", "export", "loaded", "before", "after")):
            return Row(self.name, quantity, value, tolerance, _spread(value))
        return Row(self.name, quantity, value, tolerance, "size")


def _spread(value: Any) -> float:
    """How far numbers lie apart, with two digits; 1 where they do not, or are chances or labels."""
    numbers = [v for v in _flat(value) if isinstance(v, (int, float))]
    spread = float(np.std(numbers)) if numbers else 0.0
    return float(f"{spread:.1e}") or 1.0


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _flat(item)
    else:
        yield value


@dataclasses.dataclass(frozen=True)
class Fit(Case):
    """``trueline fit``, then ``predict`` on the same rows or others, ``export`` and ``evaluate``."""

    options: str = ""
    data: str = "data.csv"
    tolerance: float = 1e-9
    predict: str | None = ""
    predict_options: str = ""
    exports: str = ""
    load: bool = False
    evaluate: bool = False
    unique: bool = True  # whether there is one optimum: of several, which is found is not frozen, only what it predicts

    def run(self, table: Table) -> Iterator[tuple[str, Any]]:
        model = table.folder / "model.tl"
        model.unlink(missing_ok=True)
        code, text = reading.run_command(
            "fit", table.folder / self.data, *shlex.split(self.options), "--json", "-o", model
        )
        yield "exit", code
        if code:
            yield "error", reading.command_error(text)
            return
        result = reading.fit_result(text)
        yield from ((name, value) for name, value in result.items() if self.unique or name != "coefficients")
        data = table.folder / (self.predict or self.data)
        if self.predict is not None:
            yield from _predict(model, data, self.predict_options)
        if self.load:
            import trueline as tl

            yield "loaded", reading.shown(np.asarray(tl.load(model).predict(table.read(data.name))))
        if self.evaluate:
            code, text = reading.run_command("evaluate", model, data, "--json")
            yield "evaluate_exit", code
            if not code:
                yield "measures", reading.evaluate_result(text)
        for language in self.exports.split():
            path = table.folder / f"export.{language}"
            path.unlink(missing_ok=True)
            code, _ = reading.run_command("export", model, "--to", language, "--output", path)
            if code:
                yield f"export_{language}", {"exit": code}
            else:
                frame = table.read(data.name)
                picked = frame[[int(k) for k in np.linspace(0, len(frame) - 1, min(len(frame), reading.SHOWN))]]
                yield f"export_{language}", run_export(language, path, picked)


def _predict(model: Path, data: Path, options: str) -> Iterator[tuple[str, Any]]:
    path = model.with_name("predictions.csv")
    path.unlink(missing_ok=True)
    code, text = reading.run_command("predict", model, data, *shlex.split(options), "-o", path, "--json")
    yield "predict_exit", code
    if code:
        yield "predict_error", reading.command_error(text)
        return
    result = reading.predicted(path)
    chances = {k: result.pop(k) for k in list(result) if "prob" in k or ("column" in k and "--interval" not in options)}
    yield "predictions", result
    if chances:
        yield "probabilities", chances


@dataclasses.dataclass(frozen=True)
class Stream(Case):
    """``trueline stream``; for a learner that is named with its rate, what it predicted too."""

    options: str = ""
    data: str = "data.csv"
    then: str = ""
    tolerance: float = 1e-8
    predictions: bool = False
    predict: str | None = None

    def run(self, table: Table) -> Iterator[tuple[str, Any]]:
        model, path = table.folder / "learner.tl", table.folder / "predictions.csv"
        path.unlink(missing_ok=True)
        options = [*shlex.split(self.options), "--json", "--save", model, "-p", path]
        code, text = reading.run_command("stream", table.folder / self.data, *options)
        if self.then and not code:
            options = ["--resume", model, "--json", "--save", model, "-p", path]
            code, text = reading.run_command("stream", table.folder / self.then, *options)
        yield "exit", code
        if code:
            yield "error", reading.command_error(text)
            return
        yield from reading.stream_result(text).items()
        if self.predictions:
            yield "predictions", reading.predicted(path)
        if self.predict:
            yield from (
                (f"later_{k}" if k == "predictions" else k, v)
                for k, v in _predict(model, table.folder / self.predict, "")
            )


@dataclasses.dataclass(frozen=True)
class Compare(Case):
    """``trueline compare``: batch methods by their error, streams within 1.05 of it."""

    options: str = ""
    data: str = "data.csv"
    tolerance: float = 1e-6

    def run(self, table: Table) -> Iterator[tuple[str, Any]]:
        code, text = reading.run_command("compare", table.folder / self.data, *shlex.split(self.options), "--json")
        yield "exit", code
        if code:
            yield "error", reading.command_error(text)
        else:
            yield from reading.compare_result(text).items()


@dataclasses.dataclass(frozen=True)
class Python(Case):
    """A call of the library that gives quantities by name."""

    call: Callable[[Table], dict[str, Any]] = dict
    tolerance: float = 1e-9

    def run(self, table: Table) -> Iterator[tuple[str, Any]]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values = self.call(table)
        except (ValueError, TypeError) as error:
            yield "error", reading.python_error(error)
        else:
            yield from values.items()


@dataclasses.dataclass(frozen=True)
class Serve(Case):
    """``trueline serve``: learn some labels, predict, end it, start again on the same store, predict again."""

    spec: dict[str, Any] = dataclasses.field(default_factory=dict)
    labels: Callable[[float], Any] = float
    kill: bool = False
    tolerance: float = 1e-8

    def run(self, table: Table) -> Iterator[tuple[str, Any]]:
        from serving import Served

        features, targets = json.loads((table.folder / "rows.json").read_text())
        folder = table.folder / self.name.replace(" ", "_")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        rows = [
            {"id": f"i{k}", "features": x, "label": self.labels(y)} for k, (x, y) in enumerate(zip(features, targets))
        ]
        asked = [{"id": f"p{k}", "features": x} for k, x in enumerate(features[100:106])]
        with Served(folder, "--snapshot-every", "40", spec=self.spec) as server:
            answers = [_answers(server, "learn", rows[k : k + 25]) for k in range(0, 100, 25)]
            yield "positions", [answer["position"] for batch in answers for answer in batch][::20]
            before = [_number(a) for a in _answers(server, "predict", asked)]
            with contextlib.suppress(Exception):
                server.kill() if self.kill else server.stop()
        with Served(folder, spec=None) as server:
            again = _answers(server, "learn", [rows[3], rows[99]])
            yield "replayed", [answer["position"] for answer in again]
            fresh = [{"features": x} for x in features[100:106]]
            after = [_number(a) for a in _answers(server, "predict", fresh)]
            server.stop()
        yield "replay_difference", float(np.abs(np.array(after) - np.array(before)).max())
        if "learner" in self.spec:
            yield "after", after


def _answers(server: Any, what: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The answers to a batch, one for each row."""
    body = server.post(f"m/{what}", rows).json()
    return body if isinstance(body, list) else body["rows"]


def _number(answer: dict[str, Any]) -> Any:
    """A prediction as a number: of classes, their probabilities."""
    return answer.get("probabilities") or answer.get("probability") or answer["prediction"]

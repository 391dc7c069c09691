"""Which values a parameter may have: declared once, checked in one place, before an estimator looks at its data.

``RULES`` holds what a name means in every class; a class whose parameter means something else says so in ``legal``.
:class:`Checked` wraps the constructor and the public methods: an option that nobody takes is refused by its name, with
the nearest one that is taken, and ``fit`` begins with the check of all parameters.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from ..errors import TruelineError, UsageError, nearest, unknown_option


class Rule:
    """Legal values: ``holds(value)`` and ``words`` for a sentence that ends in "is accepted"."""

    words: str = ""
    names: tuple[Any, ...] = ()

    def holds(self, value: Any) -> bool:
        raise NotImplementedError

    def __or__(self, other: Rule) -> Rule:
        return AnyOf(self, other)


class AnyOf(Rule):
    """One of several rules."""

    def __init__(self, *rules: Rule) -> None:
        self.rules: tuple[Rule, ...] = ()
        for rule in rules:
            self.rules += rule.rules if isinstance(rule, AnyOf) else (rule,)
        words = [rule.words for rule in self.rules]
        self.words = f"{', '.join(words[:-1])} or {words[-1]}"

    @property
    def names(self) -> tuple[Any, ...]:  # type: ignore[override]
        return tuple(name for rule in self.rules for name in rule.names)

    def holds(self, value: Any) -> bool:
        return any(rule.holds(value) for rule in self.rules)


class OneOf(Rule):
    """One of these names, or None."""

    def __init__(self, *names: Any) -> None:
        self.names = names
        shown = [repr(name) for name in names]
        self.words = " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)

    def holds(self, value: Any) -> bool:
        return any(value is name or (type(value) in (str, np.str_) and value == name) for name in self.names)


class Number(Rule):
    """A real number between two ends; ``open`` leaves the lower end out, ``open_top`` the upper one."""

    def __init__(
        self, low: float = -np.inf, high: float = np.inf, *, open: bool = False, open_top: bool = True
    ) -> None:
        self.low, self.high, self.open, self.open_top = low, high, open, open_top
        if low == -np.inf:
            self.words = "a finite number"
        elif high == np.inf:
            self.words = "a positive number" if open and low == 0 else f"a number of at least {low:g}"
            self.words += "" if open_top else " (infinity too)"
        else:
            left, right = "(" if open else "[", ")" if open_top else "]"
            self.words = f"a number in {left}{low:g}, {high:g}{right}"

    def holds(self, value: Any) -> bool:
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (Real, np.number)):
            return False
        number = float(value)
        above = number > self.low if self.open or self.low == -np.inf else number >= self.low
        return above and (number < self.high if self.open_top else number <= self.high)


class Whole(Rule):
    """A whole number from ``least`` up; 3.0 counts as 3 where ``floats``."""

    def __init__(self, least: float = -np.inf, *, floats: bool = False) -> None:
        self.least, self.floats = least, floats
        self.words = "a whole number" + (f" of at least {least:g}" if np.isfinite(least) else "")

    def holds(self, value: Any) -> bool:
        if isinstance(value, (bool, np.bool_)):
            return False
        if self.floats and isinstance(value, (float, np.floating)) and float(value).is_integer():
            return bool(value >= self.least)
        return isinstance(value, Integral) and int(value) >= self.least


class Flag(Rule):
    """True or False, and nothing that only counts as one of them."""

    words = "True or False"

    def holds(self, value: Any) -> bool:
        return isinstance(value, (bool, np.bool_))


class That(Rule):
    """Values for which a function holds, in words of their own."""

    def __init__(self, words: str, test: Callable[[Any], bool], names: Iterable[str] = ()) -> None:
        self.words, self.test, self.names = words, test, tuple(names)

    def holds(self, value: Any) -> bool:
        try:
            return bool(self.test(value))
        except (TypeError, ValueError, OverflowError):
            return False


class Names(Rule):
    """A name from a registry, which is imported when it is first needed."""

    def __init__(self, known: Callable[[], Iterable[Any]], what: str) -> None:
        self.known, self.words = known, f"the name of a {what}"

    @property
    def names(self) -> tuple[Any, ...]:  # type: ignore[override]
        return tuple(self.known())

    def holds(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.names


class Part(Names):
    """A function by its name, or one of the user's own, at which the registry itself looks."""

    def __init__(self, known: Callable[[], Iterable[Any]], what: str) -> None:
        super().__init__(known, what)
        self.words += " or a part of your own"

    def holds(self, value: Any) -> bool:
        plain = (str, bytes, bool, Real, np.generic, np.ndarray, list, dict, set, type(None))
        return super().holds(value) or not isinstance(value, plain)


def numbers_of(rule: Rule, what: str) -> That:
    """A number that a rule allows, or some of them in a list, tuple or vector."""

    def test(value: Any) -> bool:
        if isinstance(value, (str, bytes, dict, set)):
            return False
        items = np.asarray(value, dtype=object).ravel().tolist() if np.ndim(value) <= 1 else []
        return bool(items) and all(rule.holds(item) for item in items)

    return That(what, test)


def _seed(value: Any) -> bool:
    if value is None or isinstance(value, np.random.RandomState):
        return True
    return Whole(0).holds(value) and int(value) < 2**32


def _splitter(value: Any) -> bool:
    if isinstance(value, str):
        return False
    return hasattr(value, "split") or (hasattr(value, "__iter__") and not isinstance(value, (dict, np.generic)))


def is_scoring(value: Any) -> bool:
    from sklearn.metrics import get_scorer_names

    return callable(value) or value in get_scorer_names()


def _losses() -> Iterable[str]:
    from ..objective.losses import LOSSES

    return LOSSES


def _geometries() -> Iterable[str]:
    from ..parts.geometries import GEOMETRIES

    return ("auto", *GEOMETRIES)


def _penalties() -> Iterable[str]:
    from ..objective.penalties import PENALTIES

    return PENALTIES


def _methods() -> Iterable[str]:
    from ..batch.methods import METHODS

    return ("auto", *METHODS)


def _schedules() -> Iterable[str]:
    from ..parts.rates import SCHEDULES

    return SCHEDULES


def _is_list(value: Any) -> bool:
    return (
        not isinstance(value, (str, bytes, dict)) and np.ndim(np.asarray(value, dtype=object)) == 1 and len(value) > 0
    )


NONE = OneOf(None)
SHARE = Number(0, 1, open_top=False)
LABELS = NONE | That("a list of labels", _is_list)
DIGITS = OneOf("auto") | Number(0, 16, open=True, open_top=False)
SEED = That("None, a whole number of at least 0 or a RandomState", _seed)
SPLITTER = NONE | Whole(2) | That("a splitter or a list of splits", _splitter)
CLASS_WEIGHT = OneOf(None, "balanced") | That(
    "a dict of numbers of at least 0 by label",
    lambda value: isinstance(value, dict) and all(Number(0).holds(factor) for factor in value.values()),
)

RULES: dict[str, Rule] = {
    "alpha": Number(0),
    "average": Flag(),
    "batch_size": Whole(1, floats=True),
    "C": Number(0, open=True, open_top=False),
    "certificate": Flag(),
    "class_weight": CLASS_WEIGHT,
    "classes": LABELS,
    "confidence": Number(0, 1, open=True),
    "copy": Flag(),
    "copy_X": Flag(),
    "cv": SPLITTER,
    "digits": DIGITS,
    "dual": Flag() | OneOf("auto"),
    "epochs": Whole(1, floats=True),
    "eps": Number(0, open=True),
    "fit_intercept": Flag(),
    "geometry": Part(_geometries, "geometry"),
    "intercept_scaling": Number(0, open=True),
    "l1_ratio": SHARE,
    "loss": Part(_losses, "loss"),
    "loss_range": NONE | Number(0, open=True),
    "max_iter": Whole(1),
    "method": Names(_methods, "method of tl.minimize"),
    "n_jobs": NONE | Whole(),
    "order": OneOf("in_order", "cyclic", "uniform", "shuffled"),
    "penalty": OneOf(None, "none") | Part(_penalties, "penalty"),
    "positive": Flag(),
    "radius": Number(0, open=True),
    "random_state": SEED,
    "rate": OneOf("auto") | Number(0, open=True),
    "schedule": Names(_schedules, "schedule"),
    "selection": OneOf("cyclic", "random"),
    "standardize": Flag(),
    "tol": Number(0),
    "verbose": Flag() | Whole(0),
    "warm_start": Flag(),
}


def check_value(owner: str, name: str, value: Any, rule: Rule) -> None:
    """Raise unless the rule allows this value of a parameter.

    >>> check_value("Ridge", "alpha", -1.0, RULES["alpha"])
    Traceback (most recent call last):
    trueline.errors.UsageError: alpha of Ridge is -1.0; a number of at least 0 is accepted
    """
    if rule.holds(value):
        return
    names = [known for known in rule.names if isinstance(known, str)]
    hint = nearest(value, names) if isinstance(value, str) and names else ""
    close = hint if hint.startswith("; did you mean") else ""
    listed = f" ({', '.join(names)})" if names and not close and not _listed(rule) else ""
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "…"
    raise UsageError(f"{name} of {owner} is {shown}; {rule.words}{listed} is accepted{close}", where=name)


def _listed(rule: Rule) -> bool:
    """Whether the words of a rule name its names already."""
    if isinstance(rule, AnyOf):
        return all(_listed(one) for one in rule.rules if one.names)
    return not isinstance(rule, Names)


SOURCE_WORDS = ("target", "features", "weights", "where", "derive", "missing", "formula", "categories", "unseen")


def unknown_argument(where: str, name: str, known: Iterable[str]) -> UsageError:
    """The refusal of an option that nobody takes, or that only models which read sources take."""
    if name in SOURCE_WORDS and ".fit" in where and name not in known:
        return UsageError(
            f"{where} takes arrays X and y, and no source with {name}=; make the arrays first "
            "(docs/data.md lists the models that read sources)",
            where=name,
        )
    return unknown_option(where, name, known)


def unknown_of_one(owner: Any, method: str, unknown: dict[str, Any]) -> UsageError:
    """The refusal of an option of a method for one example."""
    parameters = list(inspect.signature(getattr(type(owner), method)).parameters.values())[1:]
    known = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    return unknown_option(f"{type(owner).__name__}.{method}", next(iter(unknown)), known)


def _guard(method: Any, begins: bool = False) -> Any:
    """The method, with unknown options refused by name and, where a fit begins, the parameters checked."""
    parameters = list(inspect.signature(method).parameters.values())[1:]
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    accepted = frozenset(known)
    tail = "" if method.__name__ == "__init__" else f".{method.__name__}"

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **options: Any) -> Any:
        if not open_ended and not options.keys() <= accepted:
            raise unknown_argument(
                type(self).__name__ + tail, next(name for name in options if name not in accepted), known
            )
        if begins:
            self._check_parameters()
        try:
            return method(self, *args, **options)
        except MemoryError as error:
            raise TruelineError(
                f"there is not enough memory for this ({str(error) or 'no more was said'}); use fewer columns or rows",
                where="memory",
            ) from error

    return guarded


# Called for every example of a stream: a wrapper would cost them a fifth of their time, so they refuse by themselves.
HOT = ("learn_one", "predict_one", "predict_proba_one")
BEGINNINGS = ("fit", "partial_fit")


def available(check: Callable[[Any], bool]) -> Any:
    """scikit-learn's ``available_if`` for a method whose unknown options are refused by name."""
    from sklearn.utils.metaestimators import available_if

    return lambda method: available_if(check)(_guard(method))


class Checked:
    """Mixin of every estimator: nothing that is given is swallowed."""

    legal: ClassVar[dict[str, Rule]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, method in list(vars(cls).items()):
            public = name == "__init__" or (not name.startswith("_") and name not in HOT)
            if isinstance(method, types.FunctionType) and public:
                setattr(cls, name, _guard(method, name in BEGINNINGS))

    @classmethod
    def legal_values(cls) -> dict[str, Rule]:
        """The rule of every parameter of the constructor."""
        own = {name: rule for base in reversed(cls.__mro__) for name, rule in vars(base).get("legal", {}).items()}
        names = list(inspect.signature(cls.__init__).parameters)[1:]
        return {name: own.get(name) or RULES[name] for name in names}

    def _check_parameters(self) -> None:
        """Raise for the first parameter whose value nothing here can mean."""
        cls = type(self)
        rules = cls.__dict__.get("_checked_rules")
        if rules is None:
            defaults = {p.name: p.default for p in inspect.signature(cls.__init__).parameters.values()}
            rules = [(name, rule, defaults[name]) for name, rule in cls.legal_values().items()]
            cls._checked_rules = rules  # type: ignore[attr-defined]
        for name, rule, usual in rules:
            value = getattr(self, name)
            if value is not usual:
                check_value(cls.__name__, name, value, rule)

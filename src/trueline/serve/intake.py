"""What a request says: rows of (id, features, label, weight), or a refusal that names the field.

Models whose features are all numbers have a decoder compiled for their names: it checks names and types while it reads
the JSON. What it does not take is read again as plain JSON, so that the refusal can say which field, and what it held.
"""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from ..data.jsonlines import repeated_key
from ..data.rounding import EXACT
from ..errors import DataError
from .live import Live
from .shape import shown

MOST_ROWS = 10_000  # in a batch
LONGEST_ID = 256
WIDEST = 1_000  # features of a compiled decoder
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_values = msgspec.structs.astuple
_new: Any = tuple.__new__  # a named tuple without the call in Python: one for every row


class Refused(Exception):
    """An answer that is not a success."""

    def __init__(self, status: int, message: str, where: str | None = None, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "where": where}} | more


class Row(NamedTuple):
    """One row of a request, checked; features and label in their stored form."""

    id: str | None
    features: bytes | None
    label: bytes | None = None
    weight: float = 1.0


def decode(body: bytes) -> Any:
    """JSON, or a refusal; NaN, Infinity and 1e309 pass as numbers, so that the field that holds them is named."""
    try:
        made = _decode(body)
        if body.count(b'"') != marks(made):  # a text with an escape, or a key that is given twice
            _refuse_repeated(body)
        return made
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        made = json.loads(body)
        _refuse_repeated(body)
        with contextlib.suppress(OverflowError):
            _encode(made)  # half a surrogate pair is not text
        return made
    except (ValueError, RecursionError) as error:
        what = "is nested too deep" if isinstance(error, RecursionError) else "is not JSON"
        raise Refused(400, f"the body {what}; send a JSON object", "body") from None


def marks(value: Any) -> int:
    """How many quotation marks JSON has for a value, if no key is given twice and no text has an escape.

    >>> marks({"id": "a", "features": {"x": 1.0, "town": "Bern"}})
    12
    """
    if isinstance(value, str):
        return 2
    if isinstance(value, dict):
        return 2 * len(value) + sum(marks(one) for one in value.values() if isinstance(one, (str, dict, list)))
    return sum(map(marks, value)) if isinstance(value, list) else 0


def _refuse_repeated(body: bytes) -> None:
    key = repeated_key(body)
    if key is not None:
        raise Refused(422, f"the body names the key {key[:60]!r} twice; give each key once", key[:60])


def items_of(given: Any) -> tuple[list[Any], bool]:
    """The rows of a request, and whether it is a batch: an object, a list, or {"rows": [...]}."""
    if isinstance(given, dict) and set(given) == {"rows"}:
        given = given["rows"]
        if not isinstance(given, list):
            raise Refused(422, "field 'rows' is not a list of objects", "rows")
    if not isinstance(given, list):
        return [given], False
    if not 0 < len(given) <= MOST_ROWS:
        raise Refused(422, f"the batch has {len(given)} rows; give 1 to {MOST_ROWS}", "rows")
    return given, True


class Intake:
    """Reads the requests of one model."""

    def __init__(self, live: Live, verb: str) -> None:
        self.live, self.learning = live, verb == "learn"
        self.keys = ("id", "features", "label", "weight") if self.learning else ("id", "features")
        self.one: Any = None
        self.many: Any = None
        if live.shape.plain and len(live.shape.kinds) <= WIDEST:
            with contextlib.suppress(ValueError):  # a name with a quotation mark or a backslash
                self._compile(list(live.shape.kinds))

    def _compile(self, names: list[str]) -> None:
        fields = [f"f{k}" for k in range(len(names))]
        features = msgspec.defstruct(
            "Features", [(field, float) for field in fields], rename=dict(zip(fields, names)), forbid_unknown_fields=True,
            gc=False,
        )  # fmt: skip
        absent = msgspec.UnsetType
        extra: list[Any] = [("label", Any), ("features", features | None | absent, UNSET), ("weight", Any, UNSET)]
        row = msgspec.defstruct(
            "Row", [*(extra if self.learning else [("features", features)]), ("id", str | None | absent, UNSET)],
            forbid_unknown_fields=True, gc=False,
        )  # fmt: skip
        self.one = msgspec.json.Decoder(row).decode
        self.many = msgspec.json.Decoder(list[row]).decode  # type: ignore[valid-type]

    def read(self, body: bytes) -> tuple[list[Row], bool]:
        """The rows of a request's body, and whether it is a batch."""
        if self.one is not None:
            try:
                batch = body[:1] == b"["
                given = self.many(body) if batch else [self.one(body)]
                if body.count(b'"') == sum(map(self._marks, given)):
                    return (self._all(given) if batch else [self._quick(given[0])]), batch
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, DataError, TypeError, OverflowError):
                pass  # said by name below
        items, batch = items_of(decode(body))
        return self.rows(items), batch

    def _all(self, given: list[Any]) -> list[Row]:
        if not 0 < len(given) <= MOST_ROWS:
            raise DataError("not so many")
        return self._different([self._quick(row) for row in given])

    def _marks(self, row: Any) -> int:
        """The same as :func:`marks` for a row of the compiled decoder."""
        found = 0
        if row.features is not UNSET:
            found += 2 if row.features is None else 2 + 2 * len(self.live.shape.kinds)
        if row.id is not UNSET:
            found += 2 if row.id is None else 4
        if self.learning:
            found += 4 if type(row.label) is str else 2
            found += 0 if row.weight is UNSET else 2
        return found

    def _quick(self, row: Any) -> Row:
        """A row of the compiled decoder; DataError where it needs a closer look."""
        features, id = row.features or None, row.id or None
        stored = None
        if features is not None:
            values = _values(features)
            if not math.hypot(*values) < EXACT:  # a whole number beyond may have been rounded
                raise DataError("a large number")
            stored = self.live.shape.pack(*values)
        if row.id == "" or (id is not None and not (0 < len(id) <= LONGEST_ID and id.isprintable())):
            raise DataError("an odd id")
        if not self.learning:
            return _new(Row, (id, stored, None, 1.0))
        weight = 1.0 if row.weight is UNSET else row.weight
        if type(weight) is not float or not 0.0 < weight <= 1e9 or (stored is None and id is None):
            raise DataError("an odd weight")
        return _new(Row, (id, stored, self.live.label(row.label), weight))

    # ---- a closer look, field by field
    def rows(self, items: list[Any]) -> list[Row]:
        """Rows of plain JSON values."""
        many = len(items) > 1
        return self._different([self._row(item, f"row {k}: " if many else "") for k, item in enumerate(items)])

    def _different(self, rows: list[Row]) -> list[Row]:
        if not self.learning and len(rows) > 1:
            ids = [row.id for row in rows if row.id is not None]
            if len(set(ids)) < len(ids):
                raise Refused(422, "two rows of the batch have the same id; give each row its own", "id")
        return rows

    def _row(self, item: Any, place: str) -> Row:
        if not isinstance(item, dict):
            what = "id and label" if self.learning else "features"
            raise Refused(
                422, f"{place or 'the request '}is {shown(item)}; give an object with {what}".replace(": is", " is"),
                "label" if self.learning else "features",
            )  # fmt: skip
        for key in item:
            if key not in self.keys:
                raise Refused(422, f"{place}there is no field {shown(key)}; give {', '.join(self.keys)}", str(key)[:60])
        id = item.get("id")
        if id is not None and (not isinstance(id, str) or not 0 < len(id) <= LONGEST_ID or not id.isprintable()):
            raise Refused(
                422, f"{place}field 'id' is {shown(id)}; give printable text of 1 to {LONGEST_ID} characters", "id"
            )
        stored = None
        if not self.learning or item.get("features") is not None or id is None:
            if "features" not in item:
                raise Refused(422, f"{place}field 'features' is missing; give an object of named values", "features")
            stored = self._said(self.live.shape.encode, item["features"], place)
        if not self.learning:
            return Row(id, stored)
        if "label" not in item:
            raise Refused(422, f"{place}field 'label' is missing", "label")
        weight = item.get("weight", 1.0)
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0.0 < weight <= 1e9:
            raise Refused(422, f"{place}field 'weight' is {shown(weight)}; give a positive number", "weight")
        return Row(id, stored, self._said(self.live.label, item["label"], place), float(weight))

    def _said(self, call: Any, value: Any, place: str) -> bytes:
        try:
            return call(value)
        except DataError as error:
            raise Refused(422, place + error.message, error.where) from None

"""Tables with few different rows: the people on the Titanic, and a test of two variants."""

from __future__ import annotations

import numpy as np
import polars as pl

# (class, age, sex): (lost, survived), of 2,201 people.
PEOPLE = {
    ("1st", "child", "male"): (0, 5),
    ("2nd", "child", "male"): (0, 11),
    ("3rd", "child", "male"): (35, 13),
    ("1st", "child", "female"): (0, 1),
    ("2nd", "child", "female"): (0, 13),
    ("3rd", "child", "female"): (17, 14),
    ("1st", "adult", "male"): (118, 57),
    ("2nd", "adult", "male"): (154, 14),
    ("3rd", "adult", "male"): (387, 75),
    ("crew", "adult", "male"): (670, 192),
    ("1st", "adult", "female"): (4, 140),
    ("2nd", "adult", "female"): (13, 80),
    ("3rd", "adult", "female"): (89, 76),
    ("crew", "adult", "female"): (3, 20),
}


def titanic(*, crew: bool = True) -> pl.DataFrame:
    """2,201 rows, or the 1,316 passengers; ``survived`` is no or yes."""
    rows = [
        (*who, answer)
        for who, counts in PEOPLE.items()
        for answer, count in zip(("no", "yes"), counts)
        for _ in range(count)
        if crew or who[0] != "crew"
    ]
    return pl.DataFrame(rows, schema=["class", "age", "sex", "survived"], orient="row")


def variants(rows: int = 20_000) -> pl.DataFrame:
    """Who was shown which variant on which device, and bought: 14 in 100 did."""
    rng = np.random.default_rng(5)
    variant, device = rng.choice(["a", "b"], rows), rng.choice(["desktop", "phone", "tablet"], rows, p=[0.4, 0.5, 0.1])
    chance = 0.12 + 0.02 * (variant == "b") + 0.03 * (device == "desktop")
    return pl.DataFrame(
        {"variant": variant, "device": device, "bought": np.where(rng.random(rows) < chance, "yes", "no")}
    )


def as_numbers(table: pl.DataFrame, target: str) -> pl.DataFrame:
    """The same with a target of 0 and 1."""
    return table.with_columns((pl.col(target) == "yes").cast(pl.Float64))

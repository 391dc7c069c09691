"""Writes rents.csv: 3,000 invented flats over 150 weeks. No real city, no real person: the formula is below.

``python -m trueline.demo.make`` writes it again, byte for byte. The rent is linear in what a tenant would expect,
with noise that grows with the area and a slow rise over the weeks (which a learner that
follows the stream can see). ``let_quickly`` is a yes or no that depends on how dear the flat is for what it is.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

DISTRICTS = {"centre": 260.0, "harbour": 180.0, "old town": 140.0, "north": 0.0, "mills": -60.0, "airport": -130.0}
HEADER = "week,district,area_m2,rooms,floor,lift,built,distance_km,heating,rent,let_quickly"
ROWS = 3000


def lines() -> list[str]:
    """The file's lines."""
    draw = random.Random(1905)
    names = list(DISTRICTS)
    out = [HEADER]
    for i in range(ROWS):
        week = 1 + i // 20
        district = draw.choices(names, weights=[5, 3, 4, 6, 4, 2])[0]
        rooms = draw.choices([1, 2, 3, 4, 5], weights=[4, 8, 7, 3, 1])[0]
        area = max(17.0, 14.0 + 19.5 * rooms + draw.gauss(0.0, 7.0))
        floor = min(draw.randrange(7), draw.randrange(9))
        lift = int(draw.random() < (0.75 if floor > 3 else 0.35))
        built = draw.choice([1890, 1905, 1912, 1928, 1936, 1955, 1961, 1968, 1974, 1983, 1991, 1999, 2006, 2014, 2019])
        distance = abs(
            draw.gauss({"centre": 0.7, "harbour": 2.2, "old town": 1.3, "airport": 9.5}.get(district, 4.5), 0.8)
        )
        heating = draw.choices(["gas", "district", "pump"], weights=[5, 4, 2])[0]
        fair = (
            170.0
            + 9.4 * area
            + 22.0 * rooms
            + DISTRICTS[district]
            - 21.0 * distance
            + (11.0 * floor if lift else -9.0 * max(0, floor - 1))
            + 0.9 * (built - 1950)
            + {"gas": 0.0, "district": 25.0, "pump": 60.0}[heating]
            + 1.1 * week
        )
        excess = draw.gauss(0.0, 0.55 + 0.012 * area) * 55.0
        rent = max(180.0, fair + excess)
        quickly = int(draw.random() < 1.0 / (1.0 + math.exp(0.4 + excess / 70.0 - 0.05 * rooms)))
        out.append(
            f"{week},{district},{area:.1f},{rooms},{floor},{lift},{built},{distance:.2f},{heating},{rent:.0f},{'yes' if quickly else 'no'}"
        )
    return out


if __name__ == "__main__":
    (Path(__file__).parent / "rents.csv").write_text("\n".join(lines()) + "\n")

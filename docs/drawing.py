"""How the pages' pictures are drawn: one style, one loop, one file a picture."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

INK, LINE, SOFT, WARN = "#1f2933", "#2563a8", "#9fb3c8", "#c2410c"
STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10}


def drawn(
    folder: str | pathlib.Path,
    page: str,
    *pictures: Callable[[Any], Any],
    style: dict[str, Any] | None = None,
    dpi: int = 110,
) -> list[pathlib.Path]:
    """Each function's figure as ``page_function.png``."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    made = []
    with plt.rc_context(STYLE | (style or {})):
        for picture in pictures:
            figure = picture(plt)
            target = pathlib.Path(folder) / f"{page}_{picture.__name__}.png"
            figure.savefig(target, dpi=dpi, bbox_inches="tight")
            plt.close(figure)
            made.append(target)
    return made

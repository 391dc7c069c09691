"""The report: one self-contained HTML file, light and dark, printable, no script, at most 1 MB whatever n is."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..certificates.certificate import from_dict
from .svg import escape
from .text import align, by_class, number, p_value

ROWS = 500  # rows of a table in the report; the model file has them all
WHOLE = 16  # rows of a table that paper does not break
ABREAST = 8  # classes side by side


@dataclasses.dataclass
class Picture:
    """A drawing with its title and what to see in it."""

    title: str
    drawing: str
    caption: str = ""
    wide: bool = True


@dataclasses.dataclass
class Story:
    """What a report tells, as plain records."""

    title: str
    lead: str
    facts: Sequence[tuple[str, str]] = ()
    certificate: dict[str, Any] | None = None
    coefficients: Sequence[dict[str, Any]] = ()
    pictures: Sequence[Picture] = ()
    notes: Sequence[str] = ()
    tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]] = ()
    command: str = ""
    made: str = ""


def page(story: Story) -> str:
    """The whole file."""
    style = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")
    body = [
        _head(story),
        _proof(story),
        _pictures(story),
        _coefficients(story),
        *map(_table, story.tables),
        _foot(story),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, '
        "initial-scale=1\"><meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        f'img-src data:"><link rel="icon" href="data:,"><title>{escape(story.title)}</title><style>{style}</style></head>'
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def versions() -> str:
    """What made the result, for whoever wants to make it again."""
    from importlib.metadata import PackageNotFoundError, version

    from .. import __version__

    parts = [f"trueline {__version__}", f"Python {platform.python_version()}"]
    for name in ("numpy", "polars"):
        try:
            parts.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(parts)


def _head(story: Story) -> str:
    facts = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in story.facts)
    notes = "".join(f"<li>{escape(note)}</li>" for note in story.notes)
    return (
        f'<header><div class="brand">trueline report</div><h1>{escape(story.title)}</h1><p class="lead">{escape(story.lead)}</p>'
        f"</header>{f'<dl class=facts>{facts}</dl>' if facts else ''}{f'<ul>{notes}</ul>' if notes else ''}"
    )


def _proof(story: Story) -> str:
    if not story.certificate:
        return ""
    certificate = from_dict(story.certificate)
    paragraphs = certificate.explain()
    mood = "" if certificate.proven else " open"
    first = f'<p><span class="verdict">{escape(certificate.status.verdict)}.</span> {escape(paragraphs[0])}</p>'
    rest = "".join(f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs[1:])
    return f'<h2>What this result proves</h2><div class="proof{mood}">{first}{rest}</div>'


def _pictures(story: Story) -> str:
    out: list[str] = []
    small: list[str] = []

    def close() -> None:
        if small:
            out.append(f'<div class="grid2">{"".join(small)}</div>')
            small.clear()

    for picture in story.pictures:
        caption = f"<figcaption>{escape(picture.caption)}</figcaption>" if picture.caption else ""
        drawing = f'<div class="drawing">{picture.drawing}</div>'  # on a narrow screen it scrolls rather than shrinks
        room = ' class="wide"' if picture.wide else ""
        figure = f"<figure{room}><h3>{escape(picture.title)}</h3>{drawing}{caption}</figure>"
        if picture.wide:
            close()
            out.append(figure)
        else:
            small.append(figure)
    close()
    return f"<h2>Pictures</h2>{''.join(out)}" if out else ""


def _coefficients(story: Story) -> str:
    rows = story.coefficients
    if not rows:
        return ""
    labels, terms, values = by_class(rows)
    if 0 < len(labels) <= ABREAST:
        body = [[term, *map(number, line)] for term, line in zip(terms, zip(*values))]
        more = f"<p>{len(terms) - ROWS:,} more are in the model file.</p>" if len(terms) > ROWS else ""
        return _table(("Coefficients", ["term", *labels], body)) + more
    shown = rows[:ROWS]
    full = any(row.get("std_error") is not None for row in shown)
    names = ["estimate", "std_error", "t", "p", "low", "high"] if full else ["estimate"]
    heads = ["estimate", "std. error", "t", "p", "95 % from", "to"] if full else ["estimate"]
    columns = [align([(p_value if n == "p" else number)(row.get(n)) for row in shown]) for n in names]
    lines = []
    for at, row in enumerate(shown):
        low, high = row.get("low"), row.get("high")
        unclear = low is not None and high is not None and low <= 0.0 <= high
        cells = "".join(f'<td class="num">{escape(column[at])}</td>' for column in columns)
        lines.append(f"<tr{' class=unclear' if unclear else ''}><td>{escape(row['term'])}</td>{cells}</tr>")
    more = f"<p>{len(rows) - ROWS:,} more are in the model file.</p>" if len(rows) > ROWS else ""
    head = "".join(f"<th>{name}</th>" for name in ["term", *heads])
    whole = " whole" if len(shown) <= WHOLE else ""
    return f'<h2>Coefficients</h2><div class="scroll{whole}"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>{more}'


def _table(given: tuple[str, Sequence[str], Sequence[Sequence[str]]]) -> str:
    title, heads, rows = given
    shown = rows[:ROWS]
    columns = [align([row[i] for row in shown]) if i else [row[0] for row in shown] for i in range(len(heads))]
    head = "".join(f"<th>{escape(h)}</th>" for h in heads)
    lines = "".join(
        "<tr>"
        + "".join(f"<td{' class=num' if i else ''}>{escape(c[at])}</td>" for i, c in enumerate(columns))
        + "</tr>"
        for at in range(len(shown))
    )
    whole = " whole" if len(shown) <= WHOLE else ""
    return f'<h2>{escape(title)}</h2><div class="scroll{whole}"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def _foot(story: Story) -> str:
    command = f"<h2>To make it again</h2><pre>{escape(story.command)}</pre>" if story.command else ""
    return f"{command}<footer>{escape(versions())}{f' · {escape(story.made)}' if story.made else ''}</footer>"

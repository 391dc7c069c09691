"""The table of docs/certificates.md: which fields of each kind of certificate are recomputed, and which are stated."""

from __future__ import annotations

import pathlib

from trueline.certificates import likelihood, optimality, regret

PAGE = pathlib.Path(__file__).parent / "certificates.md"
BEGIN, END = "<!-- fields: written by python -m docs certificates -->\n", "<!-- end of fields -->"
KINDS = [
    optimality.ExactCertificate, optimality.GapCertificate, optimality.KernelCertificate, regret.RegretCertificate,
    regret.StreamCertificate, regret.AveragedCertificate, regret.MistakeCertificate, likelihood.MonotoneCertificate,
    likelihood.BoostingCertificate, likelihood.LikelihoodCertificate, optimality.StationaryCertificate,
]  # fmt: skip


def field_table() -> str:
    """One row a kind."""
    lines = ["| kind | recomputed from the rows | stated, not checked |", "|---|---|---|"]
    for kind in KINDS:
        checked = ", ".join(f"`{name}`" for name in kind.checked)
        stated = ", ".join(f"`{name}`" for name in kind.stated())
        lines.append(f"| `{kind.kind}` | {checked} | {stated} |")
    return "\n".join(lines) + "\n"


def draw(pictures: pathlib.Path) -> None:
    """Write the table into the page; it has no picture."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + field_table() + END + rest.partition(END)[2])

"""What every kind of certificate has in common, and what the page about them says."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from docs.certificates import KINDS, field_table
from trueline.certificates.certificate import Assumption, Status, from_dict

PAGE = (Path(__file__).parent.parent.parent / "docs" / "certificates.md").read_text()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_every_field_is_checked_or_stated_and_survives_a_file(kind):
    names = {field.name for field in dataclasses.fields(kind)}
    assert set(kind.checked) | set(kind.stated()) == names and not set(kind.checked) & set(kind.stated())
    made = kind(status=Status.PROVEN, assumptions=(Assumption("rows", False, 2.0, 1.0, "use fewer"),), advice="look")
    again = from_dict(made.to_dict())
    assert type(again) is kind and repr(again) == repr(made)  # NaN is not equal to itself, but reads the same
    sentences = made.explain()
    assert sentences[-2:] == ["An assumption did not hold: rows (worst seen 2, limit 1). use fewer.", "Advice: look."]
    assert str(made).startswith("proven")


@pytest.mark.parametrize("status", Status)
def test_every_status_has_advice_and_a_verdict(status):
    assert str(status).startswith(status.value.replace("_", " ")) and status.verdict


def test_the_page_lists_the_fields_as_the_records_do():
    assert field_table() in PAGE


def test_the_recipe_for_signing_works(tmp_path):
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed: apt-get install openssh-client")
    key = tmp_path / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (tmp_path / "model.tl").write_bytes(b"a model")
    sign, allow, check = (
        next(block for block in re.findall(r"```sh\n(.*?)```", PAGE, re.S) if "ssh-keygen" in block)
        .replace("~/.ssh/id_ed25519", str(key))
        .splitlines()
    )
    for command in (sign, allow, check):
        subprocess.run(command, shell=True, check=True, cwd=tmp_path, capture_output=True, timeout=60)
    (tmp_path / "model.tl").write_bytes(b"another model")
    assert subprocess.run(check, shell=True, cwd=tmp_path, capture_output=True, timeout=60).returncode == 255

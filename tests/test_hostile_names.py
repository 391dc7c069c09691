"""Names that come from data never reach a language, a terminal, a page or a header as anything but names."""

from __future__ import annotations

import ast
import html.parser
import inspect
import json
import re
import shutil
import sqlite3

import numpy as np
import polars as pl
import pytest

from trueline.cli import main
from trueline.data.basis import Identity, Log, Poly
from trueline.data.formula import Formula
from trueline.data.schema import Column, Schema
from trueline.errors import ModelError, TruelineError, UsageError
from trueline.model import cfunction, escape, infix, onnx, query, targets
from trueline.model.export import TOLERANCE, export
from trueline.model.linear import LinearModel

RUN = "open('owned', 'w').close()"
NAMES = [
    '*/ extern int puts(const char*); __attribute__((constructor)) static void z(void){puts("x");} /*',
    f'"""\nimport os\n{RUN}\n"""',
    f"'\n{RUN}\n'",
    f"\\'); {RUN} #",
    f"x\r{RUN}\r",
    f"x\u2028{RUN}\u2029",
    f"x\x0c{RUN}\x85\x1c",
    "a\r; COPY (SELECT 1) TO 'owned'; --",
    "a\n; DROP TABLE data; --",
    '"; DROP TABLE data; --',
    "'; DROP TABLE data; --",
    "/* a",
    "a */ b",
    "// a \\",
    "a -- b",
    "a;b",
    "\\",
    "\\\\'",
    '\\"',
    "??/",
    "a??/\n#include <stdlib.h>\n",
    "#define double float",
    "%s%n",
    "{0.__class__}",
    "${x}",
    "`id`",
    "$(id)",
    "\x1b[2J\x1b]0;owned\x07",
    "\x9b2J",
    "a\tb",
    "\u202ereversed",
    "<script>alert(1)</script>",
    "]]><img src=x onerror=alert(1)>",
    "é",
    "a b",
    "a_b",
    " a b ",
    "int",
    "None",
    "select",
    "NAN",
    "linux",
    "HUGE_VAL",
    "__import__",
    "total",
    "row",
    "x0",
    "intercept",
    "member_0",
    "n" * 3000,
]
CANNOT = ["", "a\0b", "score"]  # some languages have no such name, and say so
LANGUAGES = ("sql", "json", "onnx", "python", "c")


def model_of(name, link="identity", formula=False):
    """Everything is called by the name: target, columns, levels, classes, a date."""
    columns = (
        Column(name, "number", (), (1.5,), 10.0, 2),
        Column(f"{name}k", "category", ("b", name, f"{name}2"), (0.2, 0.3, 0.5), 10.0, 1),
        Column(f"{name}b", "boolean", (), (0.5,), 10.0, 1),
        Column(f"{name}d", "date", (), (0.0,), 10.0, 1),
    )
    classes = {"softmax": (name, "v", "w"), "logistic": ("no", name), "sign": ("no", name)}.get(link, ())
    outputs = 3 if link == "softmax" else 1
    rng = np.random.default_rng(0)
    made = Formula(((Identity(f"{name}k"),), (Log(name, 2.0), Identity(f"{name}b")), (Poly(f"{name}d", 2),)))
    if formula:
        days = np.arange(40.0)[:, None] * 500
        known = [(c.name, c.raw_terms) for c in columns]
        made = made.fix(np.column_stack([days + 1, *[days] * 5]), known)
    schema = Schema(columns=columns, target=name, formula=made.to_dict() if formula else None)
    coef = rng.normal(size=(outputs, len(schema.terms)))
    intercept = rng.normal(size=outputs)
    if outputs == 1:
        coef, intercept = coef[0], float(intercept[0])
    return LinearModel(schema.terms, coef, intercept, (name,), schema, link, classes)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """What a name runs would leave a file here."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "link, formula", [("identity", False), ("logistic", True), ("softmax", False), ("sign", False)]
)
@pytest.mark.parametrize("to", LANGUAGES)
def test_every_name_in_every_export(to, link, formula):
    if formula and to in ("json", "onnx"):
        pytest.skip("a formula has no such export")
    if to == "c" and shutil.which("cc") is None:
        pytest.skip("no C compiler here")
    names = NAMES[:: 3 if to == "c" else 1] if link != "identity" else NAMES  # the compiler is slow
    for name in names:
        made = export(model_of(name, link, formula), to)
        assert made.difference is not None and made.difference <= TOLERANCE, name
        if to in ("python", "c"):
            assert made.content.isascii()
        if to == "json":
            assert json.loads(made.content)["target"] == name
    for name in CANNOT:
        try:
            assert export(model_of(name, link, formula), to).difference <= TOLERANCE, name
        except UsageError as error:
            assert error.message.isprintable() and "export to python or json" in error.message


def in_sqlite(query, columns):
    base = sqlite3.connect(":memory:")
    base.execute("PRAGMA foreign_keys = ON")
    base.execute(f"CREATE TABLE data ({', '.join(columns)})")
    base.execute("INSERT INTO data VALUES (2.5, 'b', TRUE, 7)")
    return base.execute(query).fetchall()


def in_duckdb(query, columns):
    base = pytest.importorskip("duckdb").connect()
    kinds = ("DOUBLE", "VARCHAR", "BOOLEAN", "BIGINT")
    base.execute(f"CREATE TABLE data ({', '.join(map(' '.join, zip(columns, kinds)))})")
    base.execute("INSERT INTO data VALUES (2.5, 'b', TRUE, 7)")
    return base.execute(query).fetchall()


@pytest.mark.parametrize("run", [in_sqlite, in_duckdb])
@pytest.mark.parametrize("link", ["identity", "softmax"])
def test_the_query_runs_where_it_goes(run, link):
    for name in NAMES:
        model = model_of(name, link)
        rows = {name: [2.5], f"{name}k": ["b"], f"{name}b": [True], f"{name}d": [7.0]}
        wanted = np.asarray(model.score(model.schema.encode(rows).X)).ravel()
        columns = ['"' + one.replace('"', '""') + '"' for one in rows]
        found = run(export(model, "sql").text, columns)
        assert len(found) == 1, name
        if link == "identity":
            assert np.allclose(found[0][0], wanted, rtol=1e-12), name
        else:
            assert found[0][3] == model.classes[int(np.argmax(wanted))], name
            assert np.allclose(found[0][4:7], wanted, rtol=1e-12), name


def test_names_that_look_alike_stay_apart():
    names = ["a b", "a_b", "a-b", "a_b_2", "A b", "é", "è", "", "_", "int", "c_int", "n" * 99, "n" * 98]
    fields = escape.c_fields(names)
    assert len(set(fields)) == len(names) and all(re.fullmatch(r"[A-Za-z]\w*", field) for field in fields)
    assert len(set(escape.c_fields(["?"] * 5000))) == 5000
    model = LinearModel(tuple(n for n in names if n), np.arange(12.0) + 1, 0.5, ("y",))
    for to in ("python", "json", "onnx", "c"):
        assert export(model, to).difference <= TOLERANCE
    # two classes that a database takes for one name
    several = LinearModel(
        ("x",), np.array([[3.0], [0.0], [-3.0]]), np.zeros(3), ("y",), None, "softmax", ("A", "a", "b")
    )
    made = export(several, "sql").text
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE data (x)")
    base.executemany("INSERT INTO data VALUES (?)", [(2.0,), (-2.0,)])
    assert [row[3] for row in base.execute(made)] == ["A", "b"]
    chances = several.probabilities(np.array([[2.0], [-2.0]]))
    assert np.allclose([row[:3] for row in base.execute(made)], chances, rtol=1e-12)


@pytest.mark.parametrize(
    "expression",
    [
        "x > 0) AS t; DROP TABLE data; --",
        "x > 0; DROP TABLE data",
        "x > 0 -- and",
        "x > 0 /* and */",
        "x > (SELECT max(x) FROM data)",
        "x > (FROM data)",
        "x > 0) OR (1 = 1",
        "load_extension('owned')",
        "pg_read_file('/etc/passwd') > 'a'",
        "E'\\'' > x",
        "x > 0 UNION SELECT 1",
        "(x > 0",
    ],
)
def test_a_filter_that_is_no_expression_is_refused(expression):
    schema = Schema(columns=(Column("x", "number", (), (1.5,), 10.0, 2),), target="y", where=expression)
    model = LinearModel(("x",), np.ones(1), 0.0, ("y",), schema)
    with pytest.raises(TruelineError):
        export(model, "sql")
    derived = Schema(columns=(Column("x", "number", (), (1.5,), 10.0, 2),), target="y", derive=(("x", expression),))
    with pytest.raises(TruelineError):
        export(LinearModel(("x",), np.ones(1), 0.0, ("y",), derived), "sql")


BROKEN = {
    "python": [
        '"""a"""\nimport math\nimport os\n\ndef score(row):\n    return [1.0]\n\ndef predict(row):\n    return 1.0\n',
        '"""a"""\nimport math\n\ndef score(row):\n    return [open("owned")]\n\ndef predict(row):\n    return 1.0\n',
        '"""a"""\nimport math\n\ndef score(row):\n    return row.__class__\n\ndef predict(row):\n    return 1.0\n',
        '"""a"""\nimport math\n\ndef score(row=print(1)):\n    return [1.0]\n\ndef predict(row):\n    return 1.0\n',
        '"""a"""\nimport math\n\n@zip\ndef score(row):\n    return [1.0]\n\ndef predict(row):\n    return 1.0\n',
        '"""a"""\nimport math\nprint(1)\n\ndef score(row):\n    return [1.0]\n\ndef predict(row):\n    return 1.0\n',
        "import math\n",
        '"""',
    ],
    "c": [
        "/* a */\n#include <stdlib.h>\n",
        "/* a */ extern int puts(const char*);",
        "/* a */ int f(void) { return system(1); }",
        '/* a */ const char *f = "a\\x41";',
        "/* a */ #define row total",
        "/* a \\ */",
        "__attribute__((constructor)) double s;",
    ],
    "sql": [
        'SELECT 1.0e0 FROM "data" AS t; DROP TABLE data',
        'SELECT 1.0e0 -- a\nFROM "data" AS t',
        "SELECT 'a",
        "-- one\n-- two\n-- three\nSELECT 1",
        "-- o'ne\nSELECT 1",
        "SELECT (1",
        "SELECT /* a */ 1",
    ],
}


@pytest.mark.parametrize("to", BROKEN)
def test_what_no_writer_writes_is_neither_run_nor_returned(to, monkeypatch):
    model = LinearModel(("x",), np.ones(1), 0.0, ("y",))
    for text in BROKEN[to]:
        ran = []
        monkeypatch.setitem(
            targets.TARGETS, to, (lambda *_, text=text: text.encode(), lambda *rest, ran=ran: ran.append(rest))
        )
        for check in (True, False):
            with pytest.raises(ModelError, match="nothing was run or written"):
                export(model, to, check=check)
        assert not ran, text


FOREIGN = {"name", "target", "levels", "classes", "terms", "where", "derive", "column"}
LOOKED_UP = {"f'{f.column}[{one}]'", "f'{head}:{name}'"}  # terms, by which weights are found; not written
LOOSE = {"label", "level", "name", "expression", "table"}
ESCAPES = {"comment", "python_value", "c_text", "c_fields", "sql_name", "sql_value", "sql_columns", "onnx_name", "of_row",
           "qualified", "_never", "len"}  # fmt: skip


@pytest.mark.parametrize("module", [cfunction, targets, query, infix, onnx])
def test_no_writer_puts_a_name_into_a_text_by_itself(module):
    """In f-strings a name stands inside a call of an escaping function; texts are not put together otherwise."""
    source = inspect.getsource(module)
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            child.parent = node
    wrong = []
    for node in ast.walk(tree):
        foreign = (isinstance(node, ast.Attribute) and node.attr in FOREIGN and _said(node) != "f.names") or (
            isinstance(node, ast.Name) and node.id in LOOSE and isinstance(node.ctx, ast.Load)
        )
        if not foreign:
            continue
        above = node
        while above is not None and not isinstance(above, (ast.FormattedValue, ast.stmt)):
            above = getattr(above, "parent", None)
            if isinstance(above, ast.Call) and _called(above) in ESCAPES:
                break
            if isinstance(above, ast.Raise) or (isinstance(above, ast.Call) and _called(above).endswith("Error")):
                break  # a message, which is escaped where errors are made
        if isinstance(above, ast.FormattedValue) and not _message(above) and ast.unparse(above.parent) not in LOOKED_UP:
            wrong.append(ast.unparse(above.parent))
    assert not wrong, wrong
    assert not re.search(r"\.format_map|%\s*\(|\.target\s*\+|\.name\s*\+", source)


def _said(node):
    return ast.unparse(node)


def _called(call):
    """The function; of map(f, …) f."""
    if getattr(call.func, "id", "") == "map":
        return getattr(call.args[0], "id", "")
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _message(node):
    """Whether an f-string is an argument of an escaping function or of an error."""
    while node is not None:
        if isinstance(node, ast.Call) and (_called(node) in ESCAPES or _called(node).endswith("Error")):
            return True
        node = getattr(node, "parent", None)
    return False


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen += [tag, *(name for name, _ in attrs)]


def obeyed(text):
    """Characters that a terminal acts on."""
    return [c for c in text if not c.isprintable() and c not in "\n"]


@pytest.mark.parametrize("name", [n for n in NAMES if "\r" not in n and "\n" not in n][::4])
def test_reports_and_messages(name, folder, capsys):
    rng = np.random.default_rng(1)
    n = 60
    frame = pl.DataFrame(
        {
            name: rng.normal(size=n),
            f"{name}k": rng.choice([name, "b"], n),
            "y": rng.choice([name, "other"], n),
            f"{name}z": rng.normal(size=n),
        }
    )
    frame.write_parquet("t.parquet")
    for target in ("y", f"{name}z"):
        report = ["--report", "r.html"]
        main(["fit", "t.parquet", "--target", target, "-o", "m.tl", *report])
        tags = Tags()
        tags.feed((folder / "r.html").read_text())
        assert not {"script", "onerror", "img"} & set(tags.seen)
        assert "alert(1)</script>" not in (folder / "r.html").read_text()
        for line in (
            ["inspect", "m.tl"], ["predict", "m.tl", "t.parquet"], ["predict", "m.tl", "t.parquet", "--json"],
            ["evaluate", "m.tl", "t.parquet"], ["verify", "m.tl", "t.parquet"], ["stream", "t.parquet", "--target", target],
            ["compare", "t.parquet", "--target", target, "--quick"],
            ["fit", "t.parquet", "--target", name + "?"], ["fit", "t.parquet", "--target", target, "--features", name + "?"],
            ["fit", "t.parquet", "--target", target, "--json"], ["fit", "t.parquet", "--target", name + "?", "--json"],
            ["export", name + ".tl"], [name], ["fit", "t.parquet", "--" + name],
        ):  # fmt: skip
            main(line)
            said = capsys.readouterr()
            if line[0] != "predict":  # its rows are data
                assert not obeyed(said.out), (line, said.out)
            assert not obeyed(said.err) and "unexpected" not in said.err, (line, said.err)


def test_half_a_surrogate_pair():
    """A model file can hold one, though no table can."""
    model = LinearModel(("half \ud800", "b"), np.array([1.0, 2.0]), 0.5, ("\udfff",))
    assert export(model, "python").difference <= TOLERANCE
    assert json.loads(export(model, "json").content)["columns"][0]["name"] == "half \ud800"
    assert export(model, "c").difference in (None, 0.0) or export(model, "c").difference <= TOLERANCE
    for to in ("sql", "onnx"):
        with pytest.raises(UsageError, match="half of a surrogate pair"):
            export(model, to)

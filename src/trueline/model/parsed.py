"""What an export wrote, read by its language's grammar before anything runs it: only what the writers write may stand there.

The writers escape every name (escape.py); this is the second lock. A text that fails is not run and not written.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from ..errors import ModelError, UsageError
from .escape import c_fields
from .plan import Plan

FUNCTIONS = ("exp", "sqrt", "sin", "cos", "tanh", "log2", "log10", "log1p", "log")

# ---- Python

_NODES = (
    ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.If, ast.Raise, ast.Expr, ast.Constant, ast.Name,
    ast.Load, ast.Store, ast.Call, ast.Attribute, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.UnaryOp, ast.USub,
    ast.Compare, ast.Gt, ast.GtE, ast.Eq, ast.NotEq, ast.Is, ast.In, ast.NotIn, ast.BoolOp, ast.Or, ast.IfExp, ast.List,
    ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp, ast.GeneratorExp, ast.comprehension, ast.Subscript, ast.NamedExpr,
)  # fmt: skip
_CALLED = {"score", "float", "int", "len", "max", "min", "sum", "abs", "zip", "repr", "ValueError"}
_NAMES = _CALLED | {
    "math",
    "row",
    "total",
    "value",
    "add",
    "levels",
    "level",
    "classes",
    "s",
    "e",
    "t",
    "a",
    "b",
    "v",
    "w",
}
_ATTRIBUTES = {("math", name) for name in FUNCTIONS} | {("row", "get"), ("s", "index")}


def check_python(content: bytes, plan: Plan) -> None:
    """A docstring, ``import math`` and the functions score and predict of plain arithmetic; otherwise a refusal."""
    try:
        module = ast.parse(content.decode("ascii"))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _refusal("Python", str(error) or type(error).__name__) from None
    docstring, load, *functions = [*module.body, None, None][: max(2, len(module.body))]
    if not (isinstance(docstring, ast.Expr) and isinstance(docstring.value, ast.Constant)):
        raise _refusal("Python", "no docstring at its head")
    if not isinstance(load, ast.Import) or [(one.name, one.asname) for one in load.names] != [("math", None)]:
        raise _refusal("Python", "an import")
    if [getattr(one, "name", None) for one in functions] != ["score", "predict"]:
        raise _refusal("Python", "more than two functions")
    for function in functions:
        for node in ast.walk(function):  # type: ignore[arg-type]
            found = _odd(node)
            if found is not None:
                raise _refusal("Python", found)


def _odd(node: ast.AST) -> str | None:
    """What no writer of ours writes."""
    if not isinstance(node, _NODES):
        return type(node).__name__
    if isinstance(node, ast.FunctionDef):
        given = node.args
        plain = [one.arg for one in given.args] == ["row"] and not (
            given.posonlyargs or given.kwonlyargs or given.vararg or given.kwarg or given.defaults
        )
        return None if plain and not node.decorator_list and node.returns is None else "an odd function"
    if isinstance(node, ast.Name) and node.id not in _NAMES and not re.fullmatch(r"x\d+", node.id):
        return f"the name {node.id!r}"
    if isinstance(node, ast.Attribute):
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        return None if (owner, node.attr) in _ATTRIBUTES else f"the attribute {node.attr!r}"
    if isinstance(node, ast.Call):
        called = node.func
        known = isinstance(called, ast.Attribute) or (isinstance(called, ast.Name) and called.id in _CALLED)
        return None if known and not node.keywords else "a call"
    return None


# ---- C

_C_PIECE = re.compile(
    r"""(?P<comment>/\*[0-9A-Za-z ,.;:'_-]*\*/)
    | (?P<text>"(?:[ -!\#->@-\[\]-~]|\\[0-3][0-7][0-7])*")
    | (?P<include>\#include\ <(?:math|string)\.h>\n)
    | (?P<number>(?:0x[01]\.[0-9a-f]+p[+-][0-9]+|[0-9]+(?:\.[0-9]+)?)(?![0-9A-Za-z_.]))
    | (?P<field>(?:(?<=row->)|(?<=\ double\ )|(?<=\ char\ \*))[A-Za-z][0-9A-Za-z_]*)
    | (?P<name>[A-Za-z_][0-9A-Za-z_]*)
    | (?P<mark>[-+*/%<>=!&|?:;,.(){}\[\] \n])""",
    re.VERBOSE,
)
_C_NAMES = {
    "typedef", "struct", "const", "char", "double", "int", "if", "else", "for", "return", "row", "total", "score", "s", "k",
    "sum", "best", "top", "probability", "unused", "trueline_row", "trueline_score", "trueline_scores", "trueline_predict",
    "isnan", "strcmp", "fabs", "NAN", "HUGE_VAL", *FUNCTIONS,
}  # fmt: skip


def check_c(content: bytes, plan: Plan) -> None:
    """Two includes, one struct and functions made of our own words and the struct's fields."""
    fields = set(c_fields(column.name for column in plan.inputs))
    text, at = content.decode("ascii", "replace"), 0
    while at < len(text):
        found = _C_PIECE.match(text, at)
        if found is None:
            raise _refusal("C", repr(text[at : at + 20]))
        kind, piece = found.lastgroup, found[0]
        ours = piece in _C_NAMES or re.fullmatch(r"x\d+", piece)
        if (kind == "name" and not ours) or (kind == "field" and not ours and piece not in fields):
            raise _refusal("C", f"the name {piece!r}")
        at = found.end()


# ---- SQL

_SQL_PIECE = re.compile(
    r"""(?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")+")
    | (?P<comment>--|/\*|\#)
    | (?P<number>[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<open>[(\[]) | (?P<close>[)\]])
    | (?P<mark>[-+*/%<>=!|&^~.,:?] | \s)""",
    re.VERBOSE,
)
_SQL_HEAD = re.compile(r"(?:-- [0-9A-Za-z ,.;:()/_-]*\n){0,2}")
_STATEMENTS = {
    "alter", "attach", "begin", "call", "commit", "copy", "create", "delete", "detach", "drop", "execute", "export",
    "grant", "import", "insert", "install", "load", "merge", "pragma", "reset", "revoke", "select", "set", "table",
    "truncate", "union", "intersect", "except", "update", "vacuum", "values", "with", "into",
}  # fmt: skip


def check_sql(content: bytes, plan: Plan) -> None:
    """One statement, no comment but the two lines at its head; a user's own expressions are expressions."""
    text = content.decode()
    _sql_pieces(text[_SQL_HEAD.match(text).end() :], "SQL")  # type: ignore[union-attr]
    for expression in [*([plan.where] if plan.where else []), *(expression for _, expression in plan.derive)]:
        check_expression(expression)


def check_expression(expression: str) -> None:
    """One expression of a row's columns, as Polars reads it: no subquery, no function that it does not know."""
    import polars as pl

    words = _sql_pieces(expression, "the expression")
    odd = next((word for word in words if word in _STATEMENTS), None)
    if odd is not None:
        raise UsageError(f"{expression!r} holds {odd.upper()}; give an expression of the row's columns", where="to")
    try:
        pl.sql_expr(expression)
    except Exception as error:
        first = str(error).partition("\n")[0]
        raise UsageError(f"{expression!r} is no expression of the row's columns: {first}", where="to") from None


def _sql_pieces(text: str, what: str) -> list[str]:
    """The bare words in lower case; a refusal where the text holds more than one expression or query would."""
    at, open_, words, before = 0, [], [], ""
    while at < len(text):
        found = _SQL_PIECE.match(text, at)
        if found is None or found.lastgroup == "comment":
            raise _refusal(what, repr(text[at : at + 20]))
        kind, piece = found.lastgroup, found[0]
        if kind == "open":
            open_.append(piece)
        elif kind == "close" and (not open_ or open_.pop() + piece not in ("()", "[]")):
            raise _refusal(what, "a bracket too many")
        elif kind == "word":
            words.append(piece.lower())
            if piece.lower() == "from" and before == "(":
                raise _refusal(what, "a subquery")
        elif kind == "quoted" and at and (text[at - 1].isalnum() or text[at - 1] in "_&"):
            raise _refusal(what, f"the prefix {text[at - 1]!r} of a text")
        if piece.strip():
            before = piece
        at = found.end()
    if open_:
        raise _refusal(what, "a bracket too few")
    return words


def _refusal(what: str, found: str) -> ModelError:
    return ModelError(f"{what} that was to be exported holds {found}; nothing was run or written", where="to")


CHECKS: dict[str, Callable[[bytes, Plan], None]] = {"python": check_python, "c": check_c, "sql": check_sql}

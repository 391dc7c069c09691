"""The tables of the store, and the digest that each of their rows carries."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import sqlite3
from typing import Any

import msgspec

LAYOUT = 1
TABLES = """
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value, digest BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS model(mid INTEGER PRIMARY KEY, name TEXT UNIQUE, spec BLOB, parent INTEGER, start INTEGER, digest BLOB);
CREATE TABLE IF NOT EXISTS prediction(pid INTEGER PRIMARY KEY, mid INTEGER, id TEXT, features BLOB, output BLOB, position INTEGER,
  at REAL, digest BLOB, UNIQUE(mid, id));
CREATE TABLE IF NOT EXISTS journal(mid INTEGER, seq INTEGER, id TEXT, label BLOB, weight REAL, pid INTEGER, features BLOB, at REAL,
  digest BLOB, PRIMARY KEY(mid, seq)) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS learned ON journal(mid, id) WHERE id IS NOT NULL;
CREATE TABLE IF NOT EXISTS expired(mid INTEGER, id TEXT, at REAL, digest BLOB, PRIMARY KEY(mid, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS snapshot(mid INTEGER, seq INTEGER, version TEXT, blob BLOB, digest BLOB, PRIMARY KEY(mid, seq)) WITHOUT ROWID;
"""
COLUMNS = {
    "meta": 2, "model": 5, "prediction": 7, "journal": 8, "expired": 3, "snapshot": 4,
}  # fmt: skip
SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
_encode = msgspec.msgpack.Encoder().encode


def digest(*values: Any) -> bytes:
    """Eight bytes over a row's content."""
    return hashlib.blake2b(_encode(values), digest_size=8).digest()


@functools.cache
def described() -> list[tuple[Any, ...]]:
    """How SQLite itself describes the tables."""
    with contextlib.closing(sqlite3.connect(":memory:")) as base:
        base.executescript(TABLES)
        return base.execute(SCHEMA).fetchall()

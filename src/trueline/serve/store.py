"""The embedded store: predictions, journal and snapshots in one SQLite database, one writer, commits in groups.

WAL with synchronous=FULL: COMMIT returns after the log is on the disk. Statements run where the caller is; only COMMIT
and the checkpoint block for long, so the service runs those two in a thread. Every stored row carries a digest of its
content. lock.py keeps a second server out and holds the number of the last commit: a log that was cut or damaged, which
SQLite itself takes for a crash before the commit, is seen by it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..errors import ModelError
from .lock import StoreLock, sync_folder
from .rows import Part, statements
from .tables import COLUMNS, LAYOUT, SCHEMA, TABLES, described, digest

CHECKPOINT_EVERY = 4_000  # rows between checkpoints
FULL = 13  # SQLITE_FULL: the transaction is already rolled back and may be tried again later

# CROSS JOIN keeps SQLite from turning the look around: a scan of the ids, and one search of an index for each.
KNOWN = {
    table: f"SELECT t.* FROM json_each(?) k CROSS JOIN {table} t ON t.mid=? AND t.id=k.value AND t.id IS NOT NULL"
    for table in ("prediction", "journal", "expired")
}
UNLABELLED = "NOT EXISTS (SELECT 1 FROM journal j WHERE j.mid=prediction.mid AND j.id=prediction.id)"
_encode = msgspec.msgpack.Encoder().encode
_text = msgspec.json.Encoder().encode


class StoreFailure(Exception):
    """A commit whose outcome is unknown: answer 503, stop, recover."""


class StoreFull(Exception):
    """No room: nothing was written, and a later try may succeed."""


class Entry:
    """What is known of an id: a prediction that waits for its label, one that had it, or one that expired."""

    __slots__ = ("at", "expired", "features", "label", "made", "output", "pid", "position", "seq", "weight")

    def __init__(self, pid: int | None, features: bytes, output: bytes | None, position: int, at: float) -> None:
        self.pid, self.features, self.output, self.position, self.at = pid, features, output, position, at
        self.made: Any = None  # the output decoded
        self.label: bytes | None = None
        self.weight = 1.0
        self.seq = 0
        self.expired = False


def trimmable(run: Callable[..., Any], mid: int) -> int:
    """The position up to which no start replays a model's journal, as the database says in the present transaction.

    A start goes on from the newest snapshot, and the one before it stays in reserve; a shadow replays the same journal
    from its own.
    """
    own = [row[0] for row in run("SELECT seq FROM snapshot WHERE mid=? ORDER BY seq DESC LIMIT 2", (mid,))]
    if len(own) < 2:
        return 0
    newest = "SELECT coalesce((SELECT max(seq) FROM snapshot s WHERE s.mid=m.mid), 0) FROM model m WHERE m.parent=?"
    return int(min([own[1], *(row[0] for row in run(newest, (mid,)))]))


def error_code(error: BaseException) -> int:
    """SQLite's primary result code, from the standard library's errors or from apsw's."""
    code = getattr(error, "sqlite_errorcode", None) or getattr(error, "extendedresult", None) or 0
    return int(code) & 0xFF


def connect(path: str, readonly: bool = False) -> Any:
    """A connection of the standard library in autocommit mode."""
    uri = f"{Path(path).absolute().as_uri()}{'?mode=ro' if readonly else ''}"
    return sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, timeout=5.0, cached_statements=64
    )


class Store:
    """One database, held by one process."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        durability: str = "full",
        connect: Callable[..., Any] = connect,
        backup: str | None = None,
    ) -> None:
        self.lock = StoreLock(path, backup)
        self.path = self.lock.path
        self.rows = 0  # written since the last checkpoint
        self.home: bytes | None = None  # the path that the database was last written under, as it says itself
        self._connect = connect
        self.reader: Any = None
        self.writer: Any = None
        try:
            self._prepare(durability, backup is not None)
        except BaseException as error:
            self._close_connections()
            self.lock.undo()
            if isinstance(error, ModelError) or not isinstance(error, Exception):
                raise
            raise ModelError(
                f"cannot open the store {self.path}: {error}; use an intact copy or another path", where=self.path
            ) from error

    # ---- opening
    def _prepare(self, durability: str, restored: bool) -> None:
        fresh = self.lock.is_empty and not restored
        if not fresh:
            if self.lock.header() != b"SQLite format 3\0":
                raise ModelError(
                    f"{self.path} is not a store of trueline, or its header is damaged; use an intact copy",
                    where=self.path,
                )
            self._watch_log()
            self._check_name()
        self.writer = self._connect(self.path)
        run = self.writer.execute
        if not fresh:
            self._check_pages(run)
        mode = next(iter(run("PRAGMA journal_mode=WAL")))[0]
        if mode != "wal":
            raise ModelError(
                f"the file system of {self.path} does not allow a write-ahead log; choose another place",
                where=self.path,
            )
        if fresh:
            self._watch_log()
        run(f"PRAGMA synchronous={'FULL' if durability == 'full' else 'OFF'}")
        run("PRAGMA wal_autocheckpoint=0")
        run("PRAGMA temp_store=MEMORY")
        run("PRAGMA cache_size=-16000")  # 16 MB: a large group stays in memory until its COMMIT
        if fresh:
            run("BEGIN IMMEDIATE")
            for statement in TABLES.split(";"):
                if statement.strip():
                    run(statement)
            self._put_meta("layout", LAYOUT)
            self._put_meta("commits", 0)
            self._put_meta("home", os.fsencode(self.path))
            run("COMMIT")
            self.home = os.fsencode(self.path)
            # SQLite passes over some errors while it makes a new file; this one is heard, before anything is promised.
            list(run("PRAGMA wal_checkpoint(TRUNCATE)"))
            sync_folder(self.path)
        self.commits = int(self._verified())
        self.lock.hold()
        self.lock.watch_log()
        marked = self.lock.mark()
        if marked > self.commits:
            raise ModelError(
                f"the store {self.path} ends at commit {self.commits} but commit {marked} was acknowledged: its write-ahead log is damaged "
                "or missing; use an intact copy",
                where=self.path,
            )

    def _watch_log(self) -> None:
        """Open the reader and read once.

        SQLite folds the log in, with a sync, when the last connection *that has read* closes. A reader that has read,
        and may not write, therefore makes it possible to leave the disk as it is: see ``abandon``.
        """
        self.reader = self._connect(self.path, readonly=True)
        self.reader.execute("PRAGMA query_only=ON")
        list(self.reader.execute("SELECT count(*) FROM sqlite_schema"))

    def _check_name(self) -> None:
        """Refuse a second name of a file: SQLite's log stands beside the first, and is not seen from here."""
        if next(iter(self.reader.execute("SELECT 1 FROM sqlite_schema WHERE name='meta'")), None):
            row = next(iter(self.reader.execute("SELECT value FROM meta WHERE key='home'")), None)
            self.home = None if row is None else bytes(row[0])
        if self.lock.names > 1 and self.home != os.fsencode(self.path) and not self.lock.mark():
            raise ModelError(
                f"the file {self.path} is a second name (a hard link) of a store; start it under its own name"
                f"{'' if self.home is None else ', ' + os.fsdecode(self.home)}",
                where=self.path,
            )

    def _check_pages(self, run: Callable[..., Any]) -> None:
        found = [row[0] for row in run("PRAGMA integrity_check(3)")]
        if found != ["ok"]:
            raise ModelError(f"the store {self.path} is damaged ({found[0]}); use an intact copy", where=self.path)
        if [tuple(row) for row in run(SCHEMA)] != described():
            raise ModelError(
                f"the tables of the store {self.path} are not those of trueline, or their description is damaged; use an intact copy",
                where=self.path,
            )

    def _verified(self) -> int:
        """Check the digest of every row; the number of commits."""
        for table, width in COLUMNS.items():
            for row in self.writer.execute(f"SELECT * FROM {table}"):
                if digest(*row[:width]) != row[width]:
                    raise ModelError(
                        f"the store {self.path} is damaged: a row of {table} ({row[0]!r}, {row[1]!r:.40}) does not match its digest; use an intact copy",
                        where=table,
                    )
        layout = self.meta("layout")
        if layout != LAYOUT:
            raise ModelError(
                f"the store {self.path} has layout {layout!r}; this version reads {LAYOUT}: use the version that wrote it",
                where=self.path,
            )
        return int(self.meta("commits"))

    # ---- reading
    def meta(self, key: str) -> Any:
        row = next(iter(self.writer.execute("SELECT value FROM meta WHERE key=?", (key,))), None)
        return None if row is None else row[0]

    def models(self) -> list[tuple[Any, ...]]:
        """(mid, name, spec, parent, start) of every model."""
        return [tuple(row[:5]) for row in self.writer.execute("SELECT * FROM model ORDER BY mid")]

    def snapshot(self, mid: int) -> tuple[int, str, bytes] | None:
        """The newest snapshot: (seq, version, blob)."""
        found = self.writer.execute(
            "SELECT seq, version, blob FROM snapshot WHERE mid=? ORDER BY seq DESC LIMIT 1", (mid,)
        )
        row = next(iter(found), None)
        return None if row is None else (row[0], row[1], bytes(row[2]))

    def journal(self, mid: int, after: int) -> Iterator[tuple[Any, ...]]:
        """(seq, id, label, weight, features, output, predicted at position) in order, without gaps."""
        expected = after + 1
        found = self.writer.execute(
            "SELECT j.seq, j.id, j.label, j.weight, coalesce(p.features, j.features), p.output, p.position FROM journal j "
            "LEFT JOIN prediction p ON p.pid=j.pid WHERE j.mid=? AND j.seq>? ORDER BY j.seq", (mid, after),
        )  # fmt: skip
        for row in found:
            if row[0] != expected or row[4] is None:
                what = (
                    f"position {expected} is missing"
                    if row[0] != expected
                    else f"the features of position {row[0]} are missing"
                )
                raise ModelError(
                    f"the journal of the store {self.path} is damaged: {what}; use an intact copy", where="journal"
                )
            expected += 1
            yield tuple(row)

    def last(self, mid: int) -> int:
        """The newest journal position of a model."""
        row = next(iter(self.writer.execute("SELECT max(seq) FROM journal WHERE mid=?", (mid,))))
        return int(row[0] or 0)

    def newest(self, mid: int) -> int | None:
        """The position of the newest snapshot."""
        return next(iter(self.writer.execute("SELECT max(seq) FROM snapshot WHERE mid=?", (mid,))))[0]

    def pending(self, mid: int) -> int:
        """Predictions that have no label; those beyond the window count until they are swept."""
        row = next(iter(self.writer.execute(f"SELECT count(*) FROM prediction WHERE mid=? AND {UNLABELLED}", (mid,))))
        return int(row[0])

    def latest(self) -> float:
        """The newest service time of any row."""
        times = [
            next(iter(self.writer.execute(f"SELECT max(at) FROM {table}")))[0]
            for table in ("prediction", "journal", "expired")
        ]
        return max([float(at) for at in times if at is not None], default=0.0)

    def known(self, mid: int, ids: list[str]) -> dict[str, Entry]:
        """What the store knows of these ids, one look a table for all of them; the digests of what is found are checked."""
        keys = _text(ids).decode()
        made: dict[str, Entry] = {}
        for pid, _, id, features, output, position, at, _ in self._found("prediction", keys, mid):
            made[id] = Entry(pid, bytes(features), bytes(output), position, at)
        for _, seq, id, label, weight, _, _, at, _ in self._found("journal", keys, mid):
            entry = made.get(id)
            if entry is None:
                entry = made[id] = Entry(None, b"", None, 0, at)
            entry.seq, entry.label, entry.weight = seq, bytes(label), weight
        if len(made) < len(ids):
            for _, id, at, _ in self._found("expired", keys, mid):
                if id not in made:
                    made[id] = Entry(None, b"", None, 0, at)
                    made[id].expired = True
        return made

    def _found(self, table: str, keys: str, mid: int) -> list[tuple[Any, ...]]:
        width = COLUMNS[table]
        rows = self._guarded(lambda: list(self.writer.execute(KNOWN[table], (keys, mid))))
        for row in rows:
            if digest(*row[:width]) != row[width]:
                raise StoreFailure(f"a row of {table} does not match its digest")
        return rows

    # ---- writing: put rows with begin … put …, then commit in a thread
    def begin(self) -> None:
        self._guarded(lambda: self.writer.execute("BEGIN IMMEDIATE"))

    def put(self, table: str, rows: Iterable[tuple[Any, ...]], *, replace: bool = False) -> None:
        """Insert rows, each with its digest."""
        width = COLUMNS[table]
        marks = ",".join("?" * (width + 1))
        made = [(*row, hashlib.blake2b(_encode(row), digest_size=8).digest()) for row in rows]
        if made:
            verb = "INSERT OR REPLACE" if replace else "INSERT"
            self._guarded(lambda: self.writer.executemany(f"{verb} INTO {table} VALUES({marks})", made))
            self.rows += len(made)

    def fill(self, parts: Iterable[Part]) -> None:
        """Everything that a group writes, up to its number."""
        for columns, rows in parts:
            for statement, values in statements(columns, rows):
                self.run(statement, values)
            self.rows += len(rows)
        self.seal()

    def run(self, statement: str, values: Sequence[Any] = ()) -> Any:
        return self._guarded(lambda: self.writer.execute(statement, values))

    def _put_meta(self, key: str, value: Any) -> None:
        self.writer.execute("INSERT OR REPLACE INTO meta VALUES(?,?,?)", (key, value, digest(key, value)))

    def seal(self) -> None:
        """The last statements of a group: its number, and where it is written if that is new."""
        self._guarded(lambda: self._put_meta("commits", self.commits + 1))
        if self.home != os.fsencode(self.path):
            self._guarded(lambda: self._put_meta("home", os.fsencode(self.path)))

    def commit(self) -> None:
        """COMMIT, durable when it returns; may be called in a thread. Never tried twice."""
        self._guarded(lambda: self.writer.execute("COMMIT"))
        self.commits += 1
        self.home = os.fsencode(self.path)
        if not self.lock.is_in_place():
            raise StoreFailure(f"the files of {self.path} were moved or removed while the service ran")
        try:
            self.lock.set_mark(self.commits)
        except OSError as error:
            if error.errno != 28:  # a full disk does not make the commit unsure
                raise StoreFailure(str(error)) from error

    def checkpoint(self) -> None:
        """Bring the log into the database; in a thread, between groups."""
        self.rows = 0
        with contextlib.suppress(StoreFull):
            self._guarded(lambda: list(self.writer.execute("PRAGMA wal_checkpoint(PASSIVE)")))

    def rollback(self) -> None:
        """Give a group up that was not committed."""
        with contextlib.suppress(Exception):
            self.writer.execute("ROLLBACK")

    def _guarded(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:
            if error_code(error) == FULL:
                self.rollback()
                raise StoreFull(str(error)) from error
            raise StoreFailure(str(error)) from error

    def backup(self, path: str) -> None:
        """A whole copy of the database as of now, while it is in use (standard library connections)."""
        source = connect(self.path, readonly=True)
        target = sqlite3.connect(path)
        try:
            source.backup(target)
        except sqlite3.Error as error:
            if error_code(error) == FULL:  # the copy found no room; the store itself has not changed
                raise StoreFull(str(error)) from error
            raise
        finally:
            target.close()
            source.close()

    def close(self) -> None:
        """Fold the log in and give the lock back; StoreFailure, with nothing tried again, where that fails."""
        try:
            self._guarded(lambda: list(self.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")))
            self._guarded(self.reader.close)
            self._guarded(self.writer.close)
        except StoreFull:
            pass  # the log stays and holds everything
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close without touching the disk again, after a failure or a refusal: the writer first, the reader last."""
        self._close_connections()
        self.lock.release()

    def _close_connections(self) -> None:
        for connection in (self.writer, self.reader):
            with contextlib.suppress(Exception):
                if connection is not None:
                    connection.close()

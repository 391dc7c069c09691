"""A disk that fails on request, and one that forgets at a power cut: a virtual file system for SQLite through apsw.

``Disk.connect`` makes connections on it, whose COMMIT may fail by itself; ``Disk.os`` is the os module of code that writes
beside SQLite.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import apsw


class Disk:
    """Counts the operations that reach the disk; ``at`` is the number of the one that fails.

    ``kind`` says how: "once" and "ever" fail, "sync" fails at the next sync, "full" has no room from there on until it is
    lifted, "tight" has none for this one, "large" has none for snapshots from there on, but for everything else.
    """

    def __init__(self, kind: str = "none", at: int = -1, keep: Path | None = None) -> None:
        self.kind, self.at, self.keep = kind, at, keep
        self.count = 0
        self.log: list[str] = []
        self.hit: list[str] = []
        self.syncs_after = 0
        self.lifted = False
        self.making = True  # the fault, if any, came before the store was open
        self.name = f"disk{id(self)}"
        self.vfs = Faulty(self)

    def reach(self, what: str) -> None:
        """One operation; raises where it is to fail."""
        self.count += 1
        self.log.append(what)
        if self.hit and what == "sync" and self.kind == "sync":
            self.syncs_after += 1
        if self.kind == "large" and (what != "commit of a snapshot" or self.count < self.at):
            return
        due = (
            self.kind == "large"
            or self.count == self.at
            or (self.hit and self.kind in ("ever", "full") and not self.lifted)
        )
        if self.kind == "full" and self.lifted:
            return  # there is room again
        if self.kind == "none" or not due or (self.kind == "sync" and what != "sync"):
            if self.count == self.at:
                self.at += 1  # fail at the next one of the right sort
            return
        if self.kind in ("full", "tight") and what not in ("write", "commit", "pwrite", "link"):
            self.at += self.count == self.at
            return
        self.hit.append(what)
        if self.kind in ("full", "tight", "large"):
            full = apsw.FullError("disk full")
            full.extendedresult = apsw.SQLITE_FULL
            raise full
        raise apsw.IOError("the disk failed")

    def connect(self, path: str, readonly: bool = False) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = Connection(path, flags=flags, vfs=self.name)
        connection.disk = self
        connection.set_busy_timeout(5000)
        return connection

    @property
    def os(self) -> FaultyOs:
        return FaultyOs(self)


class Connection(apsw.Connection):
    """A COMMIT finds no room, and does nothing; or it fails after it was done, as when the answer gets lost."""

    disk: Disk
    large = False  # the transaction has a snapshot in it

    def executemany(self, statement, *values):
        self.large |= " snapshot " in statement
        return super().executemany(statement, *values)

    def execute(self, statement, *values, **named):
        if statement.startswith("BEGIN"):
            self.large = False
        if statement != "COMMIT":
            return super().execute(statement, *values, **named)
        if self.disk.kind == "large":
            self.disk.reach("commit of a snapshot" if self.large else "commit")
            return super().execute(statement)
        if self.disk.kind in ("full", "tight"):
            self.disk.reach("commit")
            return super().execute(statement)
        made = super().execute(statement)
        self.disk.reach("commit")
        return made


class FaultyOs:
    """The functions of os that change something may fail; the others are as they are."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    def __getattr__(self, name):
        call = getattr(os, name)
        if name not in ("write", "pwrite", "fsync", "link", "unlink"):
            return call

        def reached(*values):
            try:
                self.disk.reach("sync" if name == "fsync" else name)
            except apsw.FullError as error:
                raise OSError(errno.ENOSPC, "No space left on device") from error
            except apsw.IOError as error:
                raise OSError(errno.EIO, "Input/output error") from error
            return call(*values)

        return reached


class Faulty(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        super().__init__(disk.name, "")

    def xOpen(self, name, flags):
        return File(self.disk, name, flags)

    def xDelete(self, name, sync):
        self.disk.reach("delete")
        super().xDelete(name, sync)
        if self.disk.keep is not None:
            (self.disk.keep / Path(name).name).unlink(missing_ok=True)


class File(apsw.VFSFile):
    def __init__(self, disk, name, flags):
        self.disk = disk
        self.path = name.filename() if isinstance(name, apsw.URIFilename) else name
        super().__init__("", name, flags)

    def xWrite(self, data, offset):
        self.disk.reach("write")
        super().xWrite(data, offset)

    def xTruncate(self, size):
        self.disk.reach("truncate")
        super().xTruncate(size)

    def xSync(self, flags):
        self.disk.reach("sync")
        super().xSync(flags)
        if self.disk.keep is not None and self.path:
            # What a power cut leaves is what was synced.
            shutil.copyfile(self.path, self.disk.keep / Path(self.path).name)

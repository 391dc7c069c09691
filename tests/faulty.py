"""A disk that fails on request, and one that forgets at a power cut: a virtual file system for SQLite through apsw."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw


class Disk:
    """Counts the operations that reach the disk; ``at`` is the number of the one that fails."""

    def __init__(self, kind: str = "none", at: int = -1, keep: Path | None = None) -> None:
        self.kind, self.at, self.keep = kind, at, keep
        self.count = 0
        self.hit: list[str] = []
        self.syncs_after = 0
        self.lifted = False
        self.making = True  # the fault, if any, came before the store was open
        self.name = f"disk{id(self)}"
        self.vfs = Faulty(self)

    def reach(self, what: str) -> None:
        """One operation; raises where it is to fail."""
        self.count += 1
        if self.hit and what == "sync" and self.kind == "sync":
            self.syncs_after += 1
        due = self.count == self.at or (self.hit and self.kind in ("ever", "full") and not self.lifted)
        if self.kind == "full" and self.lifted:
            return  # there is room again
        if self.kind == "none" or not due or (self.kind == "sync" and what != "sync"):
            if self.count == self.at:
                self.at += 1  # fail at the next one of the right sort
            return
        if self.kind == "full" and what != "write":
            self.at += self.count == self.at
            return
        self.hit.append(what)
        if self.kind == "full":
            full = apsw.FullError("disk full")
            full.extendedresult = apsw.SQLITE_FULL
            raise full
        raise apsw.IOError("the disk failed")

    def connect(self, path: str, readonly: bool = False) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = apsw.Connection(path, flags=flags, vfs=self.name)
        connection.set_busy_timeout(5000)
        return connection


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

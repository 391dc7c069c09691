"""Who holds a store: one process, under whatever name it opens the file.

Two locks. The lock file beside the database keeps a second server out before there is a database, and holds the number
of the last commit. But it can be removed, and a link to the database stands beside another lock file; so a byte of the
database itself is locked too, far beyond its pages and SQLite's own locks. That lock belongs to a descriptor (an "open
file description" lock): SQLite gives back every lock of its process at times, and this one must stay.

Closing a descriptor of a file gives back all of the process's locks on it that belong to the process, and SQLite's do.
So the descriptor here is opened before SQLite's and closed after them, and nothing else in the service may open the
database by itself.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import struct
import sys

from ..errors import ModelError, TruelineError, UsageError
from .tables import digest

PLACE = 1 << 62  # of the byte that is locked
COPIED = 1 << 20  # bytes at a time
ENDINGS = ("", "-wal", "-shm")  # of the files that SQLite keeps
# Elsewhere than on Linux the request has another layout, and locks of the process have to do: see ``hold``.
_BY_DESCRIPTOR = getattr(fcntl, "F_OFD_SETLK", None) if sys.platform == "linux" else None


class StoreLock:
    """The locks of one store, and the files that this process made for it; with ``backup``, the store begins as its copy."""

    def __init__(self, path: str | os.PathLike[str], backup: str | None = None) -> None:
        self.path = os.path.realpath(path)  # SQLite keeps its log beside the file that a link names
        self._created: dict[str, tuple[int, int]] = {}  # path, inode
        self._watched: dict[str, tuple[int, int]] = {}
        self._lock = self._file = -1
        try:
            self._lock = self._open_lock()
            if backup is not None:
                self._copy(backup)
            else:
                self._open_file()
        except BaseException as error:
            self.undo()
            if isinstance(error, OSError):
                raise ModelError(
                    f"cannot open the store {self.path}: {error.strerror}; choose another place", where=self.path
                ) from None
            raise

    # ---- taking
    def _open_lock(self) -> int:
        name = self.path + ".lock"
        while True:
            try:
                file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
                self._created[name] = _inode(os.fstat(file))
            except FileExistsError:
                try:
                    file = os.open(name, os.O_RDWR)
                except FileNotFoundError:
                    continue  # another process took its own away in between
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(file)
                self._created.clear()  # it belongs to who holds it now
                raise self._in_use() from None
            if _at(name) == _inode(os.fstat(file)):
                return file
            os.close(file)  # it was taken away before it was locked: nobody else would see this lock
            self._created.clear()

    def _open_file(self) -> None:
        """The database itself, made empty where there is none."""
        fresh = not os.path.exists(self.path)
        if fresh or os.path.getsize(self.path) == 0:
            self._check_gone()
        if fresh:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
            self._created[self.path] = _inode(os.fstat(self._file))
        else:
            self._file = os.open(self.path, os.O_RDWR)
        self.hold()
        self._watched[self.path] = _inode(os.fstat(self._file))

    def _check_gone(self) -> None:
        """Refuse to begin anew where labels of a store were acknowledged; SQLite would throw its log away."""
        log = os.path.exists(self.path + "-wal") and os.path.getsize(self.path + "-wal") > 0
        if log or self.mark():
            raise ModelError(
                f"there is no store {self.path}, but {self.path}{'-wal' if log else '.lock'} shows that there was one; put the store back, "
                "or choose another --store",
                where=self.path,
            )

    def hold(self) -> None:
        """Lock the database's byte; again after SQLite opened it, where locks belong to the process."""
        try:
            if _BY_DESCRIPTOR is not None:
                request = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, PLACE, 1, 0)  # struct flock
                fcntl.fcntl(self._file, _BY_DESCRIPTOR, request)
            else:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, PLACE)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise self._in_use() from None
            raise

    def _in_use(self) -> ModelError:
        return ModelError(
            f"the store {self.path} is in use by another server; stop it first or choose another --store",
            where=self.path,
        )

    def _copy(self, backup: str) -> None:
        """Put a copy of the backup in place, whole and locked, if nothing is there."""
        for ending in ENDINGS[:2]:
            if os.path.lexists(self.path + ending):
                raise self._exists(ending)
        if self.mark():
            raise self._exists(".lock")
        scratch = f"{self.path}.{secrets.token_hex(4)}.part"
        try:
            with open(backup, "rb") as source:
                self._file = os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
                self._created[scratch] = _inode(os.fstat(self._file))
                while block := source.read(COPIED):
                    while block:
                        block = block[os.write(self._file, block) :]
            os.fsync(self._file)
            self.hold()
            os.link(scratch, self.path)  # unlike a rename, never over another file
            self._watched[self.path] = self._created[self.path] = self._created[scratch]
            os.unlink(scratch)
            del self._created[scratch]
            sync_folder(self.path)
        except FileExistsError:
            raise self._exists("") from None
        except OSError as error:
            raise ModelError(
                f"cannot copy the backup {backup} to {self.path}: {error.strerror}; give a readable backup and a place to write",
                where=backup,
            ) from None

    def _exists(self, ending: str) -> TruelineError:
        return UsageError(
            f"{self.path}{ending} exists; --restore never overwrites a store: choose another --store", where="restore"
        )

    # ---- while it is held
    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever written to the database."""
        return os.fstat(self._file).st_size == 0

    @property
    def names(self) -> int:
        """Under how many names the database stands in folders."""
        return os.fstat(self._file).st_nlink

    def header(self) -> bytes:
        return os.pread(self._file, 16, 0)

    def watch_log(self) -> None:
        """From now on the log has to stay where it is."""
        self._watched[self.path + "-wal"] = _at(self.path + "-wal") or (0, 0)

    def is_in_place(self) -> bool:
        """Whether what is written here is still what the next start will find."""
        return all(_at(name) == inode for name, inode in self._watched.items())

    def mark(self) -> int:
        """The number of the last commit, as the lock file has it; 0 where it has none."""
        number, _, check = os.pread(self._lock, 64, 0).partition(b"\0")[0].partition(b" ")
        good = number.isdigit() and check == digest(int(number)).hex().encode()
        return int(number) if good else 0

    def set_mark(self, commits: int) -> None:
        os.pwrite(self._lock, str(commits).encode() + b" " + digest(commits).hex().encode() + b"\0", 0)

    # ---- giving back
    def undo(self) -> None:
        """Take away what this process made, and nothing else; after SQLite's connections are closed."""
        if self.path in self._created:
            # The log is SQLite's own, made here for a database that was made here.
            self._created |= {name: _at(name) or (0, 0) for name in (self.path + "-wal", self.path + "-shm")}
        for name, inode in self._created.items():
            if _at(name) == inode:
                with contextlib.suppress(OSError):
                    os.unlink(name)
        self.release()

    def release(self) -> None:
        for file in (self._file, self._lock):
            if file >= 0:
                os.close(file)
        self._file = self._lock = -1


def sync_folder(path: str) -> None:
    """Make the names in a file's folder durable."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _inode(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _at(name: str) -> tuple[int, int] | None:
    """The inode at a path."""
    try:
        return _inode(os.stat(name))
    except OSError:
        return None

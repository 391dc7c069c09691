"""An object file of x86-64 put into memory: what LLVM's loader does, in the one case that arises here, without LLVM.

Loading LLVM takes 0.05 s, a fifth of a short command. Numba compiles for code that may lie anywhere, so that every
reference is an absolute address of eight bytes; an object that has any other, or is for another processor, is not for here.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Collection
from typing import Any

_OBJECT, _X86_64 = 1, 62  # the kind of file, the processor
_CONTENT, _SYMBOLS, _RELOCATIONS, _EMPTY = 1, 2, 4, 8  # kinds of sections
_LOADED = 2  # a section's flag
_SHARED = 0xFFF2  # in the place of a section: zeros for whoever asks first
_ADDRESS = 1  # the kind of reference: symbol + addend, eight bytes
_READ_AND_RUN = 5

_memory: list[Any] = []  # it owns the code


def sections_of(code: bytes) -> list[tuple[int, ...]]:
    """(name, kind, flags, address, offset, size, link, info, alignment, size of an entry) of each section."""
    (start,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    return [struct.unpack_from("<IIQQQQIIQQ", code, start + k * size) for k in range(count)]


def symbols_of(code: bytes, sections: list[tuple[int, ...]]) -> list[tuple[str, int, int, int]]:
    """(name, section, value, size) of each symbol; section 0: it is asked for."""
    found = []
    for section in sections:
        if section[1] == _SYMBOLS:
            names = sections[section[6]][4]
            for at in range(section[4], section[4] + section[5], 24):
                name, _, _, where, value, size = struct.unpack_from("<IBBHQQ", code, at)
                found.append((code[names + name : code.index(b"\0", names + name)].decode(), where, value, size))
    return found


def linked(code: bytes, symbol: str, unused: Collection[str]) -> int | None:
    """The address of a function in an object file, or None where this loader cannot; ``unused`` is never called."""
    if struct.unpack_from("<HH", code, 16) != (_OBJECT, _X86_64):
        return None
    sections = sections_of(code)
    symbols = symbols_of(code, sections)
    size, places = 0, {}
    for k, (_, kind, flags, _, _, length, _, _, alignment, _) in enumerate(sections):
        if flags & _LOADED and kind in (_CONTENT, _EMPTY):
            places[k] = size + -size % max(1, alignment)
            size = places[k] + length
    # Where Numba's environment would be: only the way in from Python, never taken, looks there.
    shared = size + -size % 16
    size = shared + max((length for _, where, _, length in symbols if where == _SHARED), default=0)
    room = mmap.mmap(-1, max(1, size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    base = ctypes.addressof(ctypes.c_char.from_buffer(room))
    for k, place in places.items():
        if sections[k][1] == _CONTENT:
            room[place : place + sections[k][5]] = code[sections[k][4] : sections[k][4] + sections[k][5]]
    library = ctypes.CDLL(None)

    def address(name: str, where: int, value: int, _: int) -> int | None:
        if where == _SHARED:
            return base + shared
        if where:
            return base + places[where] + value if where in places else None
        return ctypes.cast(library.abort if name in unused else getattr(library, name), ctypes.c_void_p).value

    for section in sections:
        if section[1] == _RELOCATIONS and section[7] in places:
            for at in range(section[4], section[4] + section[5], 24):
                offset, info, addend = struct.unpack_from("<QQq", code, at)
                target = address(*symbols[info >> 32])
                if info & 0xFFFFFFFF != _ADDRESS or target is None:
                    return None
                struct.pack_into("<Q", room, places[section[7]] + offset, (target + addend) % 2**64)
    found = next((address(*each) for each in symbols if each[0] == symbol and each[1]), None)
    if library.mprotect(ctypes.c_void_p(base), ctypes.c_size_t(size), _READ_AND_RUN):
        return None
    _memory.append(room)
    return found

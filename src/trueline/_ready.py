"""Kernels that an earlier process compiled, run without Numba: for commands whose whole life is shorter than its import.

Importing Numba and unpickling a cached kernel takes most of a second, and a short ``trueline stream`` needs one kernel.
A process that asks for ``light`` start-up keeps, beside Numba's cache, the machine code of each kernel that it runs; the
next one puts that into memory (_link.py; elsewhere than on x86-64 LLVM's loader does) and calls it as a C function,
which gives up the GIL as the kernel would. Numba's native functions take (result*, exception**, arguments…), where an array is (owner, parent, size,
itemsize, data, shape…, strides…) and a part is its fields; an owner of NULL is never counted, so the only functions of
Numba's runtime that may be missing are those for counting and for calls from Python. Whatever does not fit this (another
kind of argument, a kernel that allocates, another platform) takes the usual way.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import json
import os
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._link import linked, sections_of, symbols_of
from ._prune import look_over, used

RESULTS: dict[str, Any] = {"int64": ctypes.c_int64, "float64": ctypes.c_double, "none": ctypes.c_void_p}
# Of the wrapper that Python calls, which is never called here, and of counting owners, of which there are none.
UNUSED = ("NRT_adapt_", "NRT_MemInfo_call_dtor", "NRT_Free", "numba_", "Py", "_Py")
PROCESSOR = ("vendor", "cpu family", "model", "stepping", "flags", "Features", "CPU ")  # lines of Linux's /proc/cpuinfo
MARK = b"trueline ready 1\n"


class Unready(Exception):
    """An argument or a kernel that only Numba knows to call."""


def of_value(value: Any) -> str:
    """The type of an argument in words; the same words as ``of_type`` finds for Numba's type of it."""
    kind = type(value)
    if value is None:
        return "none"
    if kind in (bool, int, float, np.float64):
        return {bool: "bool", int: "int64"}.get(kind, "float64")
    if kind is np.ndarray:
        flags = value.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        return f"array({value.dtype}, {value.ndim}, {layout}, {flags.writeable}, {flags.aligned})"
    if isinstance(value, tuple):
        name = f"{kind.__module__}.{kind.__qualname__}" if hasattr(kind, "_fields") else "tuple"
        return f"{name}({', '.join(map(of_value, value))})"
    raise Unready(kind)


def of_type(given: Any) -> str:
    """The same of a Numba type."""
    name = str(given)
    if name in ("none", "bool", "int64", "float64"):
        return name
    if hasattr(given, "layout") and hasattr(given, "ndim"):
        return f"array({given.dtype}, {given.ndim}, {given.layout}, {given.mutable}, {given.aligned})"
    if hasattr(given, "types"):
        owner = getattr(given, "instance_class", None)
        own = f"{owner.__module__}.{owner.__qualname__}" if owner is not None else "tuple"
        return f"{own}({', '.join(map(of_type, given.types))})"
    raise Unready(name)


def flat(value: Any) -> Iterator[Any]:
    """An argument as the native function takes it."""
    if value is None:
        yield ctypes.c_void_p(None)
    elif isinstance(value, np.ndarray):
        yield from map(
            ctypes.c_int64,
            (0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides),
        )
    elif isinstance(value, tuple):
        for field in value:
            yield from flat(field)
    else:
        yield ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int64(int(value))


def parts(value: Any) -> Iterator[type]:
    """The classes of the parts in an argument."""
    if isinstance(value, tuple):
        if hasattr(type(value), "_fields"):
            yield type(value)
        for field in value:
            yield from parts(field)


def place(function: Any, described: Sequence[str], sources: Any, folder: Path) -> Path:
    """Where the machine code of a kernel for arguments of these types is kept; ``sources`` are digests of all it reaches."""
    told = sorted((k, v) for k, v in os.environ.items() if k.startswith("NUMBA_") and k != "NUMBA_CACHE_DIR")
    key = repr((function.__module__, function.__qualname__, tuple(described), sources, machine(), told))
    return folder / f"{function.__name__}-{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}.ready"


@functools.cache
def machine() -> tuple[str, ...]:
    """What compiled code depends on besides its source: the processor, and the version of the compiler."""
    spec = importlib.util.find_spec("llvmlite")
    version = Path(spec.origin).with_name("_version.py").read_text() if spec is not None and spec.origin else ""
    try:
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
        return (version, sys.platform, *(line for line in lines if line.startswith(PROCESSOR)))
    except OSError:
        import llvmlite.binding as llvm

        return (version, llvm.get_default_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())


def keep(path: Path, code: bytes, symbol: str, result: str) -> None:
    """Write machine code, unless it needs what only Numba's runtime has."""
    if result not in RESULTS or code[:6] != b"\x7fELF\x02\x01":
        return
    needed = [name for name in undefined(code) if not _known(name)]
    if any(not name.startswith(UNUSED) for name in needed):
        return
    head = json.dumps({"symbol": symbol, "result": result, "missing": needed}).encode()
    body = struct.pack("<I", len(head)) + head + code
    scratch = path.with_suffix(f".{os.getpid()}")
    scratch.write_bytes(MARK + hashlib.blake2b(body, digest_size=16).digest() + body)
    scratch.replace(path)
    look_over(path.parent)


def undefined(code: bytes) -> list[str]:
    """The symbols that an ELF object asks for."""
    return [name for name, where, _, _ in symbols_of(code, sections_of(code)) if where == 0 and name]


def _known(name: str) -> bool:
    """Whether the C library, or this Python, has the function."""
    try:
        ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p)
    except AttributeError:
        return False
    return True


_engines: list[Any] = []  # they own the code


def load(path: Path) -> Callable[..., Any] | None:
    """What runs the machine code kept there, or None where there is none."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    used(path)
    body = content[len(MARK) + 16 :]
    if content[: len(MARK)] != MARK or hashlib.blake2b(body, digest_size=16).digest() != content[len(MARK) :][:16]:
        return None
    (size,) = struct.unpack_from("<I", body)
    head = json.loads(body[4 : 4 + size])
    code = body[4 + size :]
    address = linked(code, head["symbol"], head["missing"]) or _by_llvm(code, head["symbol"], head["missing"])
    if not address:
        return None
    function = ctypes.CFUNCTYPE(ctypes.c_int32)(address)
    result = RESULTS[head["result"]]

    def call(*arguments: Any) -> Any:
        made, error = result(), ctypes.c_void_p()
        status = function(
            ctypes.byref(made), ctypes.byref(error), *(leaf for value in arguments for leaf in flat(value))
        )
        if status not in (0, -2):  # Numba's codes for a value and for None
            raise RuntimeError(f"a compiled kernel failed with code {status}")
        return None if status == -2 else made.value

    return call


def _by_llvm(code: bytes, symbol: str, unused: Sequence[str]) -> int:
    """The address of a function in an object file of any processor."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name in unused:
        if llvm.address_of_symbol(name) is None:
            llvm.add_symbol(name, ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p).value)
    engine = llvm.create_mcjit_compiler(
        llvm.parse_assembly(""), llvm.Target.from_default_triple().create_target_machine()
    )
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return int(engine.get_function_address(symbol))

"""The only file that knows Numba (but for _lanes.py and _walks.py, which know its code generator).

``@kernel`` marks a function that may run compiled. Nothing is imported or compiled until the first
call; then the kernel, and every kernel it names, becomes a Numba dispatcher. With
NUMBA_DISABLE_JIT=1 the same source runs as plain Python.

A *part* (loss, geometry, penalty, row layout) is a NamedTuple with small pure methods. ``teach``
lets compiled code call those methods, so a user's part runs at the speed of a built-in one.

Compiled code is cached on disk under a digest of every source file that it can reach: the files of
the kernels it calls and of the part classes in its signature. Numba's own key sees only the file of
the outermost function, and its numbered files let two processes overwrite each other's code, so
both the key and the file layout are replaced here. Parts without a source file are not cached; code that nobody
has used for long is removed (_prune.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np

from ._prune import look_over, used

Function = TypeVar("Function", bound=Callable[..., Any])

PLAIN = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
# Sums may be reordered and fused; NaN and infinity keep their meaning.
REASSOCIATE = {"reassoc", "contract", "nsz"}

_lock = threading.RLock()
_lightly = False
_asked: set[tuple[str, str, tuple[str, ...]]] = set()  # what was called lightly, by module, name and types
_pending: list[type] = []
_taught: set[type] = set()
_finders: set[str] = set()


class Kernel:
    """A function that becomes compiled code at its first call."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], light: bool = False) -> None:
        self.function = function
        self.options = options
        self.light = light
        self._dispatcher: Callable[..., Any] | None = None
        self._ready: dict[tuple[Any, ...], Callable[..., Any] | None] = {}
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__
        self.__wrapped__ = function

    def __call__(self, *arguments: Any) -> Any:
        return (self._dispatcher or self.ready(*arguments) or self.dispatcher)(*arguments)

    def __reduce__(self) -> Any:
        return getattr, (sys.modules[self.__module__], self.__name__)

    def ready(self, *arguments: Any) -> Callable[..., Any] | None:
        """Machine code that an earlier process left for arguments of these types, where that is asked for."""
        if not (_lightly or self.light) or PLAIN:
            return None
        kinds = tuple(map(_kind, arguments))
        if kinds not in self._ready:
            self._ready[kinds] = self._left_by_others(arguments)
        return self._ready[kinds]

    def _left_by_others(self, arguments: tuple[Any, ...]) -> Callable[..., Any] | None:
        from . import _ready

        try:
            described = tuple(map(_ready.of_value, arguments))
        except _ready.Unready:
            return None
        _asked.add((self.__module__, self.__name__, described))
        if "numba" in sys.modules:  # the usual way costs nothing more, and leaves this one for the next process
            return None
        classes = [cls for value in arguments for cls in _ready.parts(value)]
        path = _ready_file(self.function, described, classes)
        return None if path is None else _ready.load(path)

    @property
    def dispatcher(self) -> Callable[..., Any]:
        """What really runs: Numba's dispatcher, or the plain function."""
        with _lock:
            if self._dispatcher is None:
                self._dispatcher = self.function if PLAIN else _compiled(self)
                _bind(self.function)
            return self._dispatcher


@overload
def kernel(function: Function) -> Function: ...
@overload
def kernel(*, reassociate: bool = ..., light: bool = ..., inlined: bool = ...) -> Callable[[Function], Function]: ...
def kernel(function: Any = None, *, reassociate: bool = False, light: bool = False, inlined: bool = False) -> Any:
    """Mark a function as a kernel; ``reassociate=True`` lets its sums vectorise.

    With ``light=True`` it always starts lightly: see ``start_lightly``. ``inlined=True`` is for what is called once a row:
    a call counts references to the arrays that it is given, which costs more than a short row.
    """

    def mark(inner: Callable[..., Any]) -> Kernel:
        options: dict[str, Any] = {"fastmath": REASSOCIATE} if reassociate else {}
        return Kernel(inner, options | {"forceinline": True} if inlined else options, light)

    return mark if function is None else mark(function)


def _kind(value: Any) -> Any:
    """What a specialisation depends on of an argument: found in less time than its description in words."""
    kind = type(value)
    if kind is np.ndarray:
        return value.dtype, value.ndim, value.flags.num
    return (kind, *map(_kind, value)) if issubclass(kind, tuple) else kind


def teach(part: Any) -> None:
    """Let compiled code call the methods of this part and of the parts in its fields."""
    cls = type(part)
    if PLAIN or not isinstance(part, tuple):
        return
    for field in part:
        if isinstance(field, tuple) and hasattr(field, "_fields"):
            teach(field)
    with _lock:
        if cls in _taught:
            return
        _taught.add(cls)
        if "numba" in sys.modules and not _pending:
            _register(cls)
        else:
            _pending.append(cls)


def start_lightly() -> None:
    """Let this process run what earlier ones compiled without importing Numba; what it lacks is kept for the next one."""
    global _lightly
    _lightly = True


def direct(item: Any, *arguments: Any) -> Callable[..., Any]:
    """What runs for arguments of exactly these types, without Numba's look at the types of every call.

    A NamedTuple costs that look 0.7 µs; a row learned alone would spend most of its time there. The caller must
    pass the same types ever after.
    """
    dispatcher: Any = item.dispatcher if isinstance(item, Kernel) else item
    if PLAIN:
        return dispatcher  # type: ignore[no-any-return]
    return dispatcher.compile(tuple(dispatcher.typeof_pyval(value) for value in arguments))  # type: ignore[no-any-return]


def compiled_specialisations() -> int:
    """How many specialisations this process compiled itself instead of loading them from the cache."""
    return _cache_class().misses if "numba" in sys.modules and not PLAIN else 0


def _compiled(item: Kernel) -> Callable[..., Any]:
    import numba

    _vector_forms()
    while _pending:
        _register(_pending.pop())
    dispatcher: Any = numba.njit(nogil=True, error_model="numpy", **item.options)(item.function)
    dispatcher._cache = _cache_class()(item.function)
    return dispatcher  # type: ignore[no-any-return]


@cache
def _vector_forms() -> None:
    from ._lanes import register

    register(REASSOCIATE)


def _bind(function: Any) -> None:
    """Put dispatchers in the place of the kernels that the function's globals name."""
    for name, value in _reached(function):
        if isinstance(value, Kernel):
            function.__globals__[name] = value.dispatcher


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _reached(function: Any) -> Iterator[tuple[str, Any]]:
    for code in _codes(function.__code__):
        for name in code.co_names:
            if name in function.__globals__:
                yield name, function.__globals__[name]


def _methods(cls: type) -> dict[str, Any]:
    """The methods that the part's author wrote; those of NamedTuple itself are not among them."""
    found: dict[str, Any] = {}
    for owner in reversed(cls.__mro__):
        if owner not in (object, tuple):
            found |= {n: f for n, f in vars(owner).items() if inspect.isfunction(f) and not n.startswith("_")}
    return found


def _register(cls: type) -> None:
    from numba import types as numba_types
    from numba.extending import overload_method

    for name in _methods(cls).keys() - _finders:
        _finders.add(name)

        def find(self: Any, *_: Any, name: str = name) -> Any:
            owner = getattr(self, "instance_class", None)
            method = None if owner is None else _compiled_method(owner, name)
            # Numba wants finder and method to have one signature; only star-arguments fit every part.
            return None if method is None else lambda self, *arguments: method(self, *arguments)

        find.__signature__ = _STAR  # type: ignore[attr-defined]
        options = {"error_model": "numpy", "forceinline": True}
        overload_method(numba_types.BaseNamedTuple, name, jit_options=options)(find)


_STAR = inspect.signature(lambda self, *arguments: None)


@cache
def _compiled_method(owner: type, name: str) -> Any:
    import numba

    method = _methods(owner).get(name)
    if method is None:
        return None
    _bind(method)
    # A call that is not inlined counts references to the arrays that it is given: more than a short row costs.
    options: dict[str, Any] = (
        {"fastmath": REASSOCIATE, "forceinline": True} if getattr(owner, "reassociate", False) else {}
    )
    return numba.njit(nogil=True, error_model="numpy", **options)(method)


@cache
def _file_digest(path: str) -> str:
    try:
        return hashlib.blake2b(Path(path).read_bytes(), digest_size=16).hexdigest()
    except OSError:
        return ""


def _sources(start: list[Any]) -> tuple[set[str], set[str]] | None:
    """Files and constants that compiled code starting here depends on; None if some source is unknown."""
    files = {
        str(Path(__file__).with_name(name)) for name in ("_jit.py", "_lanes.py", "_vectors.py", "_walks.py")
    }  # they write code
    constants: set[str] = set()
    seen: set[int] = set()
    todo = list(start)
    while todo:
        item = todo.pop()
        item = item.function if isinstance(item, Kernel) else getattr(item, "py_func", item)
        if id(item) in seen:
            continue
        seen.add(id(item))
        if inspect.isclass(item) and issubclass(item, tuple) and hasattr(item, "_fields"):
            try:
                files.add(inspect.getfile(item))
            except (TypeError, OSError):
                return None
            todo += _methods(item).values()
        elif inspect.isfunction(item):
            files.add(item.__code__.co_filename)
            todo += [value for _, value in _reached(item)]
            constants |= {f"{n}={v!r}" for n, v in _reached(item) if isinstance(v, (int, float, str, tuple))}
        elif inspect.ismodule(item) and item.__name__.partition(".")[0] == __package__:
            files.add(item.__file__ or "")
    return files, constants


def _ready_file(function: Any, described: tuple[str, ...], classes: list[type]) -> Path | None:
    """Where machine code for arguments of these types lies, named by all that it depends on; None if that is not known."""
    from importlib.util import find_spec

    from . import _ready

    reach, numba = _sources([function, *classes]), find_spec("numba")
    if reach is None or numba is None or numba.origin is None:
        return None
    version = _file_digest(str(Path(numba.origin).with_name("_version.py")))
    digests = sorted(_file_digest(path) for path in reach[0])
    if "" in digests:
        return None
    folder = os.environ.get("NUMBA_CACHE_DIR") or str(Path(function.__code__.co_filename).parent / "__pycache__")
    return _ready.place(function, described, (version, digests, sorted(reach[1])), Path(folder))


def _part_classes(numba_type: Any) -> Iterator[type]:
    owner = getattr(numba_type, "instance_class", None)
    if owner is not None:
        yield owner
    members = getattr(numba_type, "types", None) or ((numba_type.dtype,) if hasattr(numba_type, "dtype") else ())
    for member in members if owner is not None or type(numba_type).__name__ in ("Tuple", "UniTuple") else ():
        yield from _part_classes(member)


@cache
def _cache_class() -> Any:
    from numba.core import caching

    class ReachCache(caching.FunctionCache):
        """One file per (kernel, signature, processor, reachable source), named by their digest."""

        misses = 0

        def _file(self, signature: Any, codegen: Any) -> Path | None:
            parts = [cls for item in signature for cls in _part_classes(item)]
            reach = _sources([self._py_func, *parts])
            if reach is None:
                return None
            digests = sorted(_file_digest(path) for path in reach[0])
            if "" in digests:
                return None
            owners = [f"{cls.__module__}.{cls.__qualname__}" for cls in parts]
            key = repr(
                (str(signature), codegen.magic_tuple(), digests, sorted(reach[1]), owners, caching.numba.__version__)
            )
            name = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
            return Path(self._cache_path) / f"{self._impl.filename_base}-{name}.nbc"

        def _load_overload(self, signature: Any, context: Any) -> Any:
            path = self._file(signature, context.codegen())
            if path is not None:
                try:
                    payload = caching.pickle.loads(path.read_bytes())
                    used(path)
                    self._keep_ready(signature, payload)
                    made = self._impl.rebuild(context, payload)
                    # A class of the script itself comes back from the file as a twin: under the twin's signature the
                    # code would not be found again, and every call would load it anew.
                    return made._replace(signature=made.signature.replace(args=tuple(signature)))
                except FileNotFoundError:
                    pass
            type(self).misses += 1
            return None

        def _save_overload(self, signature: Any, data: Any) -> None:
            path = self._file(signature, data.codegen)
            if path is None or not self._impl.check_cachable(data):
                return
            scratch = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
            try:
                self._impl.locator.ensure_cache_path()
                payload = self._impl.reduce(data)
                scratch.write_bytes(caching.dumps(payload))
                scratch.replace(path)
                look_over(path.parent)
                self._keep_ready(signature, payload)
            except OSError:  # a full or read-only disk costs the next process a compilation, nothing else
                with contextlib.suppress(OSError):
                    scratch.unlink()

        def _keep_ready(self, signature: Any, payload: Any) -> None:
            """For the next process that starts lightly: the machine code alone."""
            if not _asked:
                return
            from . import _ready

            library, entry, _, made = payload[:4]
            classes = [cls for item in signature for cls in _part_classes(item)]
            function = self._py_func
            with contextlib.suppress(_ready.Unready, OSError):
                described = tuple(map(_ready.of_type, signature))
                if (function.__module__, function.__name__, described) not in _asked or library[1] != "object":
                    return
                path = _ready_file(function, described, classes)
                if path is not None and not path.exists():
                    _ready.keep(path, library[2][0], entry.llvm_func_name, str(made.return_type))

    return ReachCache

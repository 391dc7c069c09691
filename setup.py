"""Compiles the kernels: every .py that has a .pxd beside it, to a binary beside it. Also the build backend.

TRUELINE_COMPILE: 1 (default), 0 (all stays plain Python), checked (bounds checked, sanitisers). The backend is setuptools'
own, which also asks for ziglang where the machine has no C compiler.
"""

import os
import shutil
import sys
import sysconfig
import warnings
from pathlib import Path

from setuptools import Extension, build_meta, setup
from setuptools.build_meta import *  # noqa: F403

SOURCE = Path("src/trueline")
FORM = os.environ.get("TRUELINE_COMPILE", "1")
WINDOWS = os.name == "nt"
HEADERS = Path(sysconfig.get_path("include"), "Python.h")


def compiler():
    """The machine's C compiler, or None."""
    names = [os.environ.get("CC"), sysconfig.get_config_var("CC"), "cc", "gcc", "clang"]
    return "cl" if WINDOWS else next((name for name in names if name and shutil.which(name.split()[0])), None)


CC = compiler()
if FORM != "0" and not WINDOWS and not HEADERS.exists():
    warnings.warn(f"{HEADERS} is missing, so the kernels stay plain Python, hundreds of times slower", stacklevel=1)
    FORM = "0"
LIMITED = FORM != "0" and not sysconfig.get_config_var("Py_GIL_DISABLED")  # one abi3 wheel; not if free-threaded


def get_requires_for_build_wheel(settings=None):
    return build_meta.get_requires_for_build_wheel(settings) + ([] if CC or FORM == "0" else ["ziglang"])


get_requires_for_build_editable = get_requires_for_build_wheel


def extensions():
    from Cython.Build import cythonize

    checked = FORM == "checked"
    # No contraction: a·b + c is rounded twice on every processor, so that sums have the same bits everywhere.
    flags = [] if WINDOWS else ["-O3", "-g0", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
    link = ["-s"] if sys.platform == "linux" else []
    if checked:
        sanitise = ["-fsanitize=address,undefined"] if CC else []  # zig brings no ASan
        flags, link = [*flags, "-O1", "-g", *sanitise], sanitise
    if not WINDOWS:
        os.environ["CC"] = (
            CC or f"{sys.executable} -m ziglang cc -mcpu=baseline"
        )  # zig's default is this very processor
    shared = {
        "include_dirs": [str(SOURCE)],
        "depends": [str(header) for header in SOURCE.rglob("*.h")],
        "extra_compile_args": flags,
        "extra_link_args": link,
        "py_limited_api": LIMITED,
        "define_macros": [("Py_LIMITED_API", "0x030b0000")] if LIMITED else [],
    }
    # A .pxd with a header beside it only names the header's functions.
    kernels = sorted(path for path in SOURCE.rglob("*.pxd") if not path.with_suffix(".h").exists())
    files = {".".join(path.with_suffix("").parts[1:]): str(path.with_suffix(".py")) for path in kernels}
    files["trueline._shared"] = str(SOURCE / "_shared.c")  # Cython writes it into build_dir: one copy of its helpers
    return cythonize(
        [Extension(name, [file], **shared) for name, file in files.items()],
        build_dir=f"build/c-{FORM}",
        shared_utility_qualified_name="trueline._shared",
        compiler_directives={
            **dict.fromkeys(["boundscheck", "initializedcheck"], checked),
            **dict.fromkeys(["wraparound", "autotestdict", "show_performance_hints"], False),
            "cdivision": True,
        },
    )


if __name__ == "__main__":
    wheel = {"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {}
    setup(ext_modules=[] if FORM == "0" else extensions(), options=wheel)

"""Which tests share a process when several run side by side: a file's, and all that share one JVM."""

from __future__ import annotations

import pytest

SPARK = ("test_scale_odd_spark.py", "test_scale_spark.py", "test_scale_vectors.py")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items if config.pluginmanager.has_plugin("xdist") else ():
        item.add_marker(pytest.mark.xdist_group("spark" if item.path.name in SPARK else str(item.path)))

"""Containers for the tests of this folder."""

import asyncio
import inspect
import sys
from pathlib import Path

import drystone as dry
import pytest
from hypothesis import HealthCheck, settings

# Modules shared by the tests are beside them.
sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile(
    "drystone",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("drystone")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.dry"


@pytest.fixture
def container(path: Path):
    with dry.create(path, durability="memory") as c:
        yield c


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs tests that are coroutines, such as zarr-python's own tests of stores."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True

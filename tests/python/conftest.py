"""Containers for the tests of this folder."""

import sys
from pathlib import Path

import drystone as dry
import pytest
from hypothesis import HealthCheck, settings

# What the tests share lies beside them.
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

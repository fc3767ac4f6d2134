"""A container and a tier of a node."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DRYSTONE_NODE", "a")
    return "a"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "run.dry"


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return tmp_path / "near"

"""Which way imports point, and what `import memsmith` brings along."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

import memsmith

ROOT: Final = Path(__file__).resolve().parents[2]
INIT: Final = ROOT / "memsmith" / "__init__.py"


def test_the_import_contract_is_kept() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--config", "importlinter.toml", "--no-cache"],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def loaded_by(code: str) -> set[str]:
    printing = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    # A child that is measured has loaded sqlite3, and more, before the first line of ours.
    unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", printing],
        capture_output=True, text=True, check=True, timeout=60, env=unmeasured,
    )  # fmt: skip
    return set(done.stdout.split())


def test_importing_memsmith_loads_neither_a_driver_nor_a_surface() -> None:
    loaded = loaded_by("import memsmith")
    heavy = {
        "sqlite3",
        "aiosqlite",
        "asyncpg",
        "typer",
        "rich",
        "prometheus_client",
        "detect_secrets",
        "pydantic",
        "numpy",
    }
    assert not loaded & heavy
    assert "memsmith" in loaded


def test_a_store_in_memory_needs_no_driver() -> None:
    loaded = loaded_by("from memsmith import MemoryBackend, MemoryStore")
    assert not loaded & {
        "sqlite3",
        "aiosqlite",
        "asyncpg",
        "typer",
        "rich",
        "prometheus_client",
        "detect_secrets",
    }


def test_without_the_driver_every_name_can_be_had_and_a_backend_names_the_extra() -> None:
    loaded_by(
        "import sys\n"
        "sys.modules['asyncpg'] = None\n"
        "from memsmith import *\n"
        "from memsmith.connect import backend_for\n"
        "from memsmith.errors import MissingExtraError\n"
        "for make in (PostgresBackend, backend_for):\n"
        "    try:\n"
        "        make('postgresql://localhost/memories')\n"
        "    except MissingExtraError as error:\n"
        "        assert \"pip install 'memsmith[postgres]'\" in str(error)\n"
        "        assert isinstance(error.__cause__, ModuleNotFoundError)\n"
        "    else:\n"
        "        raise AssertionError('no error')\n"
    )


def test_the_public_names_are_sorted_and_each_can_be_had() -> None:
    assert memsmith.__all__ == sorted(memsmith.__all__)
    assert len(memsmith.__all__) == len(set(memsmith.__all__))
    for name in memsmith.__all__:
        assert getattr(memsmith, name) is not None
    assert dir(memsmith) == memsmith.__all__


def test_the_names_for_type_checkers_are_those_loaded_on_demand() -> None:
    tree = ast.parse(INIT.read_text(encoding="utf-8"))
    checked = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    on_demand: dict[str, str] = vars(memsmith)["_WHERE"]
    assert checked == on_demand
    assert sorted([*checked, "__version__"]) == memsmith.__all__


def test_an_unknown_name_is_an_attribute_error() -> None:
    package: Any = importlib.import_module("memsmith")
    with pytest.raises(AttributeError, match="no attribute 'HookRegistry'"):
        _ = package.HookRegistry


def test_the_package_and_its_metadata_have_one_version() -> None:
    from importlib.metadata import version

    assert version("memsmith") == memsmith.__version__

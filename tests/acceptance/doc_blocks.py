"""Runs the code blocks of Markdown files, in order, as a reader would."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from memsmith import MemoryStore, SQLiteBackend

ROOT: Final = Path(__file__).resolve().parents[2]
LANGUAGES: Final = {"python", "bash", "mermaid", "text", "json"}

_FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXIT: Final = re.compile(r"#\s*exit (\d+)\s*$")


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is that of its first line of code."""

    path: Path
    line: int
    language: str
    code: str


def blocks_of(path: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a file."""
    text = path.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        yield Block(path, text.count("\n", 0, match.start(2)) + 1, match[1], match[2])


async def run_python(block: Block, names: dict[str, Any]) -> None:
    """Run a Python block; names carry over to the next one. Top-level `await` is allowed."""
    padded = "\n" * (block.line - 1) + block.code
    code = compile(padded, str(block.path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if code.co_flags & inspect.CO_COROUTINE:
        await eval(code, names)
    else:
        # In a thread of its own, a block may call `asyncio.run`.
        await asyncio.to_thread(exec, code, names)


async def run_document(path: Path) -> int:
    """Run every Python and shell block of a file; return how many there were."""
    names: dict[str, Any] = {"__name__": "document"}
    count = 0
    try:
        for block in blocks_of(path):
            if block.language == "python":
                await run_python(block, names)
            elif block.language == "bash":
                await asyncio.to_thread(run_shell, block)
            else:
                continue
            count += 1
    finally:
        # A block that fails leaves its store open, and an open store keeps the process alive.
        for store in [value for value in names.values() if isinstance(value, MemoryStore | SQLiteBackend)]:
            await store.close()
    return count


def run_shell(block: Block) -> None:
    """Run the memsmith commands of a shell block; others are checked, for they would install things."""
    for command in _commands(block.code):
        if command.startswith("memsmith "):
            _run_memsmith(command)
        elif command.startswith("make "):
            _check_target(command)
        elif command.startswith("pip install "):
            _check_extras(command)
        else:
            raise AssertionError(f"{block.path.name}:{block.line}: nothing here can run {command!r}")


def _commands(code: str) -> Iterator[str]:
    for line in code.replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            yield line.removeprefix("$ ").strip()


def _run_memsmith(command: str) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    wanted = _EXIT.search(command)
    done = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    expected = int(wanted[1]) if wanted else 0
    assert done.returncode == expected, f"{command}\n{done.stdout}{done.stderr}"


def _check_target(command: str) -> None:
    target = command.split()[1]
    assert re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(), re.MULTILINE), command


def _check_extras(command: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra in re.findall(r"memsmith\[([\w,]+)\]", command):
        assert set(extra.split(",")) <= set(project["optional-dependencies"]), command

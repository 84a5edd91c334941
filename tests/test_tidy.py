"""The repository holds to its own rules: what may stand in which file, and where a test is run."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

CHECKOUT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = sorted((CHECKOUT / "src").rglob("*.py"))
CORE = CHECKOUT / "src" / "fairway" / "core"
STORE = CHECKOUT / "src" / "fairway" / "store"

LINES_IN_A_SOURCE_FILE = 400
NAMES_THAT_SAY_NOTHING = {"utils.py", "util.py", "helpers.py", "misc.py", "common.py"}
# Without clock, chance, input, output or waiting: what the core may use of Python's own library.
PURE_LIBRARY = {
    *("__future__", "abc", "collections", "dataclasses", "enum", "functools", "types", "typing"),
    *("array", "bisect", "fractions", "heapq", "itertools", "math", "operator"),
    *("base64", "binascii", "hashlib", "json", "re", "string", "struct", "textwrap"),
}
# Written apart, so that this file may stand among those that it looks at.
NOT_FOR_READERS = {
    "a path of some machine": re.compile(r"(?<![\w.])/(?:work|root|home|Users)/\w"),
    "an issue or a session": re.compile(r"(?i)\bissue\s+#?\d|\bsession\s+#?\d|\bsee\s+#\d"),
}
DOWNLOAD_ADDRESS = re.compile(r"https?:|--(?:extra-)?index-url|--find-links|\bfile:")
STATE_LETTER = re.compile(r"""(['"])[QFRSXKNUOCEIL]\1""")


def relative(path: pathlib.Path) -> str:
    return str(path.relative_to(CHECKOUT))


def repository_texts() -> list[pathlib.Path]:
    """Every text file that is or would be committed."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=CHECKOUT, check=True, capture_output=True).stdout.decode()
    files = [CHECKOUT / name for name in sorted(set(names.split("\0"))) if name]
    return [file for file in files if file.is_file() and b"\0" not in file.read_bytes()]


@pytest.mark.parametrize("what", NOT_FOR_READERS)
def test_no_file_points_out_of_the_repository(what: str) -> None:
    pattern = NOT_FOR_READERS[what]
    found = [
        f"{relative(file)}:{number}: {line.strip()[:80]}"
        for file in repository_texts()
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, f"{what}: {found}"


def test_requirements_name_no_download_address() -> None:
    files = sorted((CHECKOUT / "requirements").glob("*.txt"))
    assert files
    found = [relative(file) for file in files if DOWNLOAD_ADDRESS.search(file.read_text())]
    assert not found


def test_a_package_has_one_version_in_all_requirements() -> None:
    pins: dict[str, set[str]] = {}
    for file in (CHECKOUT / "requirements").glob("*.txt"):
        for name, rest in re.findall(r"^([\w.-]+)==([^\\\n]+)", file.read_text(), re.MULTILINE):
            # Several versions of one package in one file have different Pythons behind the `;`.
            marker = rest.partition(";")[2].strip()
            pins.setdefault(f"{name} ; {marker}", set()).add(rest.partition(";")[0].strip())
    assert {name: versions for name, versions in pins.items() if len(versions) > 1} == {}


def test_every_file_name_says_what_is_in_it() -> None:
    assert not [relative(file) for file in SOURCES if file.name in NAMES_THAT_SAY_NOTHING]


@pytest.mark.parametrize("file", SOURCES, ids=relative)
def test_a_source_file_says_first_what_it_is_for_and_stays_short(file: pathlib.Path) -> None:
    text = file.read_text()
    assert ast.get_docstring(ast.parse(text)), "its first line is a docstring"
    assert len(text.splitlines()) <= LINES_IN_A_SOURCE_FILE, (
        "more lines: look for the second thing it does"
    )


def imported(file: pathlib.Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{relative(file)}: imports name the whole package"
            yield (
                f"{node.module}.{node.names[0].name}"
                if node.module == "fairway"
                else node.module or ""
            )


def test_the_core_imports_nothing_that_reads_or_changes_the_world() -> None:
    found = [
        f"{relative(file)} imports {name}"
        for file in CORE.rglob("*.py")
        for name in imported(file)
        if not name.startswith("fairway.core")
        and name.partition(".")[0] not in {"msgspec"} | PURE_LIBRARY
    ]
    assert not found


def test_the_core_awaits_nothing() -> None:
    waiting = (ast.Await, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith)
    found = [
        f"{relative(file)}:{node.lineno}"
        for file in CORE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, waiting)
    ]
    assert not found


def strings_of(file: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Every string of a Python file that the program sees, so without its docstrings."""
    tree = ast.parse(file.read_text())
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
        ):
            yield node.lineno, node.value


def test_no_store_knows_the_states() -> None:
    """A store compares and moves what the core computed; a state in it would be a rule in it."""
    found = [
        f"{relative(file)}:{line}: {text[:60]}"
        for file in STORE.rglob("*.py")
        for line, text in strings_of(file)
        if STATE_LETTER.search(f"'{text}'") or STATE_LETTER.search(text)
    ]
    found += [
        relative(file) for file in STORE.rglob("*.sql") if STATE_LETTER.search(file.read_text())
    ]
    assert not found


def test_every_test_is_run_by_a_part() -> None:
    listing = subprocess.run(
        [sys.executable, CHECKOUT / "test", "--list"], check=True, capture_output=True, text=True
    )
    run = [CHECKOUT / path for line in listing.stdout.splitlines() for path in line.split()[1:]]
    files = sorted((CHECKOUT / "tests").rglob("test_*.py"))
    assert not [
        relative(file) for file in files if not any(file.is_relative_to(path) for path in run)
    ]

"""Installs Fairway and what it needs into .venv of this checkout, with a bare Python 3.11 or later.

    python3 tools/install.py core          the broker and its command line
    python3 tools/install.py spark test    what the pipeline needs, and what the tests need

Every package is pinned and checked by hash (requirements/*.txt). What is installed already is seen
from a stamp, without starting a process. This file and the scripts that use it must at least parse
on older Pythons, so that they can say what is missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

CHECKOUT = pathlib.Path(__file__).resolve().parent.parent
REQUIREMENTS = CHECKOUT / "requirements"
VENV = CHECKOUT / ".venv"
PYTHON = VENV / "bin" / "python"
UV = VENV / "bin" / "uv"
STAMPS = VENV / "installed"

SETS = {
    "core": "Fairway",
    "spark": "Spark for the pipeline (about 430 MB the first time)",
    "test": "the tools of the tests",
}
OLDEST_PYTHON = (3, 11)
PYTHONS_TO_TRY = ("python3.14", "python3.13", "python3.12", "python3.11")
PYTHON_IS_TOO_OLD = """\
Fairway needs Python 3.11 or later; python3 here is {}.{}, and no newer one was found.
Debian and Ubuntu: apt install python3.12 python3.12-venv   macOS: brew install python@3.12"""
NO_VENV = """\
{}
Python's venv module does not work here. Debian and Ubuntu: apt install python3-venv"""
NO_NETWORK = """\

The package registry was not reached. Check the network, or the proxy, and run this again."""
NO_NETWORK_SIGNS = ("dns error", "name resolution", "connect", "timed out", "no matching distrib")
LINES_OF_A_FAILURE = 12


class InstallError(Exception):
    """Nothing was installed; the text says what a person can do about it."""


def use_a_new_enough_python() -> None:
    """Start the running script again with a newer Python, if the one it runs on is too old."""
    if sys.version_info[:2] >= OLDEST_PYTHON:
        return
    for name in PYTHONS_TO_TRY:
        newer = shutil.which(name)
        if newer:
            os.execv(newer, [newer, *sys.argv])
    raise SystemExit(PYTHON_IS_TOO_OLD.format(*sys.version_info))


def install_or_exit(*names: str) -> None:
    """For the scripts: what went wrong in a person's words instead of a traceback."""
    try:
        install(*names)
    except InstallError as failure:
        raise SystemExit(str(failure)) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def install(*names: str) -> None:
    """Bring .venv to what these sets ask for; one that is there costs a few milliseconds."""
    if all(is_installed(name) for name in names):
        return
    with only_one_process():
        make_venv_with_uv()
        for name in names:
            if not is_installed(name):
                install_set(name)


def install_uv() -> None:
    """Make .venv with at least uv in it, which is what tools/lock.py needs."""
    with only_one_process():
        make_venv_with_uv()


def make_venv_with_uv() -> None:
    if is_installed("uv"):
        return
    with told("Making .venv"):
        shutil.rmtree(VENV, ignore_errors=True)
        make_venv()
        pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--retries", "2"]
        call([*pip, "--require-hashes", "-r", str(REQUIREMENTS / "uv.txt")])
    write_stamp("uv")


def make_venv() -> None:
    try:
        call([sys.executable, "-m", "venv", str(VENV)])
    except InstallError as failure:
        raise InstallError(NO_VENV.format(failure)) from None


def install_set(name: str) -> None:
    with told("Installing " + SETS[name]):
        uv_install("-r", str(REQUIREMENTS / "build.txt"))
        # What builds need is in the venv, by hash: an isolated build would fetch its own, unpinned.
        uv_install("--no-build-isolation", "-r", str(REQUIREMENTS / (name + ".txt")))
        if name == "core":
            install_this_checkout()
    write_stamp(name)


def uv_install(*arguments: str) -> None:
    # No dependency is looked up, the files list them all; it would fetch pyspark's archive twice.
    checked = ["--require-hashes", "--no-deps"]
    call([str(UV), "pip", "install", "--quiet", "--python", str(PYTHON), *checked, *arguments])


def install_this_checkout() -> None:
    local = ["--no-deps", "--no-build-isolation", "--offline", "--editable", str(CHECKOUT)]
    call([str(UV), "pip", "install", "--quiet", "--python", str(PYTHON), *local])


def is_installed(name: str) -> bool:
    try:
        return (STAMPS / name).read_text() == stamp_of(name)
    except OSError:
        return False


def write_stamp(name: str) -> None:
    """Last of all and in one step: an install that was cut off has no stamp, and is done again."""
    STAMPS.mkdir(exist_ok=True)
    draft = STAMPS / (name + ".draft")
    draft.write_text(stamp_of(name))
    draft.replace(STAMPS / name)


def stamp_of(name: str) -> str:
    """What a set is installed from: another Python, folder or requirement, another stamp."""
    sources = [(REQUIREMENTS / (name + ".txt")).read_text()]
    if name != "uv":
        sources.append((REQUIREMENTS / "build.txt").read_text())
    if name == "core":
        sources.append(packaging_tables((CHECKOUT / "pyproject.toml").read_text()))
    content = hashlib.sha256("".join(sources).encode()).hexdigest()
    return "{}.{} {} {}\n".format(*sys.version_info[:2], CHECKOUT, content)


def packaging_tables(pyproject: str) -> str:
    """What an editable install is made from; the settings of linters do not matter to it."""
    kept, inside = [], False
    for line in pyproject.splitlines():
        if line.startswith("["):
            inside = line.startswith(("[build-system]", "[project", "[tool.hatch"))
        if inside and line.strip():
            kept.append(line)
    return "\n".join(kept)


@contextlib.contextmanager
def only_one_process():
    """Hold the checkout's install lock: ./run and ./test may be started together."""
    try:
        import fcntl
    except ImportError:
        raise InstallError("Fairway's scripts need Linux or macOS; on Windows use WSL.") from None
    folder = os.open(REQUIREMENTS, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("Waiting for another install in this checkout.", flush=True)
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


@contextlib.contextmanager
def told(what: str):
    """One line on the terminal: what is being done, and how long it took."""
    started = time.monotonic()
    print(what + " ... ", end="", flush=True)
    try:
        yield
    except BaseException:
        print("stopped", flush=True)
        raise
    print("{:.1f} s".format(time.monotonic() - started), flush=True)


def call(command: list[str]) -> None:
    process = subprocess.Popen(
        command,
        cwd=CHECKOUT,
        env=environment_of_installers(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # so that what it starts by itself ends with it
    )
    try:
        output = process.communicate()[0]
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        raise
    if process.returncode:
        raise InstallError(explained(command, output))


def environment_of_installers() -> dict[str, str]:
    """The person's own (proxy, registry, certificates), without what leads to another Python."""
    environment = dict(os.environ)
    for name in ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH", "PIP_REQUIRE_VIRTUALENV"):
        environment.pop(name, None)
    environment.setdefault("UV_HTTP_TIMEOUT", "180")
    environment.setdefault("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    return environment


def explained(command: list[str], output: str) -> str:
    last_lines = output.strip().splitlines()[-LINES_OF_A_FAILURE:]
    text = "\n  ".join(["This failed: " + " ".join(command), *last_lines])
    if any(sign in output.lower() for sign in NO_NETWORK_SIGNS):
        text += NO_NETWORK
    return text


if __name__ == "__main__":
    use_a_new_enough_python()
    wanted = sys.argv[1:]
    if not wanted or any(name not in SETS for name in wanted):
        raise SystemExit("usage: python3 tools/install.py {} ...".format("|".join(SETS)))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what it started, as Ctrl-C
    install_or_exit(*wanted)

"""Writes requirements/*.txt from pyproject.toml: every package, pinned and hashed.

    python3 tools/lock.py             keep the pinned versions; add and drop what is asked
    python3 tools/lock.py --upgrade   take the newest versions that pyproject.toml allows

The files hold names, versions and hashes, and no download address: they work with whatever
registry pip and uv are set up for. One resolution of everything comes first and constrains the
others, so a package has one version in all of them.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import subprocess
import tempfile

import install

SETS = {
    "core": "pyproject.toml",
    "spark": "pyproject.toml --extra spark",
    "test": "--group test",
    "build": "--group build",
    "uv": "--group uv",
}
EVERYTHING = "pyproject.toml --extra spark --group test --group build --group uv"
# Good for every Python that Fairway runs on and every system.
EVERYWHERE = "--universal --python-version 3.11"
NO_ADDRESS = "--no-header --no-emit-index-url --no-emit-find-links"

HEADER = "# Written by tools/lock.py from pyproject.toml; do not edit.\n"
PIN = re.compile(r"^[\w.-]+==[^\\\n]+", re.MULTILINE)
CONSTRAINT_REMARK = re.compile(r", -c \S+|-c \S+, ")


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--upgrade", action="store_true", help="take the newest versions")
    upgrade = options.parse_args().upgrade
    install.install_uv()
    write_all(upgrade)


def write_all(upgrade: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        everything = pathlib.Path(folder) / "everything.txt"
        everything.write_text("" if upgrade else pins_so_far())
        resolve(f"{EVERYTHING} --no-annotate", everything)
        for name, sources in SETS.items():
            draft = pathlib.Path(folder) / f"{name}.txt"
            hashed = "--annotation-style line --generate-hashes"
            resolve(f"{sources} --constraints {everything} {hashed}", draft)
            text = CONSTRAINT_REMARK.sub("", draft.read_text())
            (install.REQUIREMENTS / draft.name).write_text(HEADER + text)
            print(f"requirements/{draft.name}: {len(PIN.findall(text))} packages")


def pins_so_far() -> str:
    texts = [file.read_text() for file in install.REQUIREMENTS.glob("*.txt")]
    pins = {pin.strip() for text in texts for pin in PIN.findall(text)}
    return "\n".join(sorted(pins)) + "\n"


def resolve(what: str, output: pathlib.Path) -> None:
    """Let uv choose the versions; it keeps those that `output` names already."""
    command = [install.UV, "pip", "compile", "--quiet", "--output-file", output]
    command += f"{EVERYWHERE} {NO_ADDRESS} {what}".split()
    subprocess.run(command, cwd=install.CHECKOUT, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()

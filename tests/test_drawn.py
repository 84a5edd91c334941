"""Documents agree with the code: what is drawn is as the code draws it, and every name is explained."""

from __future__ import annotations

import pathlib
import re

import pytest

import fairway
from fairway.core import errors
from fairway.core.events import COLUMNS
from fairway.core.lifecycle import TABLE, Verb
from fairway.core.records import Place, State
from fairway.server.wire import HeldMessage
from tools import draw

CHECKOUT = pathlib.Path(__file__).resolve().parent.parent
GLOSSARY = CHECKOUT / "GLOSSARY.md"
CONTRIBUTING = CHECKOUT / "CONTRIBUTING.md"
DECISIONS = CHECKOUT / "docs" / "adr"
INDEX = DECISIONS / "README.md"
LINES_OF_A_DECISION = 25

NAMES = {
    "public names": fairway.__all__,
    "states": [word for state in State for word in (state.value, draw.name(state))],
    "places": [draw.name(place) for place in Place],
    "verbs": [verb.value for verb in Verb],
    "kinds of events": draw.kinds(),
    "columns of the log": COLUMNS,
    "keys of a message": HeldMessage.__struct_encode_fields__,
}


@pytest.mark.parametrize("document", draw.DOCUMENTS, ids=lambda document: document.name)
def test_a_document_is_what_the_code_draws(document: pathlib.Path) -> None:
    text = document.read_text()
    assert draw.drawn(text) == text, "run: .venv/bin/python tools/draw.py"


def test_everything_that_can_be_drawn_is_shown() -> None:
    shown = [part for d in draw.DOCUMENTS for part in re.findall(r"drawn: (\w+)", d.read_text())]
    assert sorted(shown) == sorted(draw.PARTS)


def test_all_is_said_in_words_and_nothing_that_is_not_there() -> None:
    assert set(draw.STATES) == set(State)
    assert set(draw.WHERE) == set(Place)
    assert set(draw.VERBS) == set(Verb)
    assert set(draw.EVENTS) == set(draw.kinds())


def test_the_letters_in_the_words_are_those_of_the_table() -> None:
    for row in TABLE:
        if row.to is not None and row.event is not None:
            assert row.to.value in draw.EVENTS[row.event][0].split(), row


@pytest.mark.parametrize("what", NAMES)
def test_every_name_is_explained(what: str) -> None:
    explained = GLOSSARY.read_text() + (CHECKOUT / "docs" / "lifecycle.md").read_text()
    words = {
        word
        for code in re.findall(r"`([^`\n]+)`", explained)
        for word in re.findall(r"\w+", code.removeprefix("fairway."))
    }
    assert not [name for name in NAMES[what] if name not in words]


def test_a_word_is_not_also_refused() -> None:
    """No word of the glossary stands in its own row among those that are not used."""
    rows = [line.split("|") for line in GLOSSARY.read_text().splitlines() if line.count("|") == 5]
    assert rows
    for _, word, _, _, refused, _ in rows:
        if not word.startswith("---"):
            assert not set(word.strip(" `").split(", ")) & set(refused.strip().split(", ")), word


def test_the_tree_in_the_source_names_the_classes_in_their_order() -> None:
    written = re.findall(r"^ +[│├└─ ]*(\w+)(?:  |$)", errors.__doc__ or "", re.MULTILINE)
    classes = re.findall(r"^[│├└─ ]*([A-Z]\w+)", draw.error_tree(), re.MULTILINE)
    assert written == classes


def test_every_decision_is_listed_and_short() -> None:
    index = INDEX.read_text()
    files = sorted(file for file in DECISIONS.glob("*.md") if file != INDEX)
    assert re.findall(r"\]\((\d{4}-[a-z0-9-]+\.md)\)", index) == [file.name for file in files]
    for file in files:
        title = file.read_text().splitlines()[0].removeprefix("# ")
        number, _, name = title.partition(". ")
        assert file.name.startswith(f"{int(number):04d}-")
        assert f"| {number} | [{name}](" in index, "its title is that of the file"
        assert len(file.read_text().splitlines()) <= LINES_OF_A_DECISION


@pytest.mark.parametrize("page", [GLOSSARY, CONTRIBUTING], ids=lambda page: page.name)
def test_links_and_paths_lead_to_what_is_there(page: pathlib.Path) -> None:
    text = page.read_text()
    links = re.findall(r"\]\(([^)#\s]+)\)", text)
    paths = re.findall(r"`((?:src|tests|docs|tools|bench|requirements)\b[\w/.]*)`", text)
    assert links
    assert not [path for path in links + paths if not (page.parent / path).exists()]

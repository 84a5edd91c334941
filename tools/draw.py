"""Draws what documents say of the code: the life of a message, the limits, the errors.

    .venv/bin/python tools/draw.py

A document holds its own words, and between two marks what is drawn here:

    <!-- drawn: limits -->
    <!-- end -->

What a state, a place, a verb and an event mean is said in words below; all else is read from the
code. tests/test_drawn.py fails when a document differs from what the code draws.
"""

from __future__ import annotations

import ast
import io
import pathlib
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator

from fairway.core import errors, limits
from fairway.core.events import ENDINGS
from fairway.core.lifecycle import BODILESS, PLACES, TABLE, Ready, Row, Verb, When
from fairway.core.records import Place, State
from fairway.server import problems, wire

CHECKOUT = pathlib.Path(__file__).resolve().parent.parent
CORE = CHECKOUT / "src" / "fairway" / "core"
DOCUMENTS = [CHECKOUT / "docs" / "lifecycle.md", CHECKOUT / "docs" / "limits.md"]
DRAWN = re.compile(r"(<!-- drawn: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

STATES = {
    State.LOGGED: "Accepted and in the log, not placed yet: its queue leaves placing to the pipeline.",
    State.QUEUED: "In line, perhaps with a delay. Every delivery begins so.",
    State.PARTLY: "Some of the consumers that must confirm it have done so; it waits for the others.",
    State.RETRY: "In line again, after a try that did not finish it.",
    State.LEASED: "A consumer holds it until the deadline.",
    State.COMPLETED: "Enough consumers acknowledged it.",
    State.KICKED: "Handed out with auto-ack: ended by the grant itself, at most once.",
    State.UNCHANGED: "It says what the last accepted message of its object and key said.",
    State.DECLINED: "Its holder did not want this work.",
    State.OBSOLETE: "Something newer has its place: a version of the same id, or of the same name.",
    State.CANCELLED: "A person took it away, alone or with others.",
    State.EXHAUSTED: "Its retries, its deliveries or its time are used up, or its target had no room.",
    State.REJECTED: "Its holder said that it can never be processed.",
}
WHERE = {
    Place.WAITING: "In line: ready, delayed, in back-off, or partly confirmed.",
    Place.LEASED: "In the hands of one consumer.",
    Place.HISTORY: "Finished; kept for a while.",
    Place.DEAD: "Given up; kept longer, so that somebody looks.",
}
VERBS = {
    Verb.SEND: ("producer", "Sends a message whose id is there already. A new id meets nothing."),
    Verb.REPLACE: ("producer", "Sends a newer message under the same `replaces` name."),
    Verb.ACK: ("holder", "It is done."),
    Verb.NAK: ("holder", "It did not work: try again after the back-off."),
    Verb.REQUEUE: ("holder", "Not now: to the end of the line, after a delay. No retry is used."),
    Verb.REJECT: ("holder", "It can never be processed."),
    Verb.DECLINE: ("holder", "This work is not wanted."),
    Verb.RESCHEDULE: ("holder", "Start over later: retries begin at 0, expiry moves along."),
    Verb.RELEASE: ("holder", "Was not started: back to its old place, nothing counted."),
    Verb.EXTEND: ("holder", "Still at work: a later deadline. Counted, not logged."),
    Verb.LAPSE: ("system", "The lease ran out."),
    Verb.EXPIRE: ("system", "The message's own time ran out. A lease is never ended by it."),
    Verb.CANCEL: ("person", "Take one message away; throw a dead letter away."),
    Verb.CHANGE: ("person", "Another priority, delay or time to live."),
    Verb.PURGE: ("person", "Take away all that wait."),
    Verb.DELETE: ("person", "Delete the target by force, with what is in it."),
    Verb.RECOVER: ("person", "Send a copy of a dead letter."),
    Verb.REPLAY: ("person", "Send a copy of a finished delivery."),
}
EVENTS = {
    "logged": ("L", "A send was accepted."),
    "refused": ("D", "A queue did not take a send that others took."),
    "duplicate": ("D", "The id was there; nothing changed."),
    "unchanged": ("U", "Equal to the head of its object and key."),
    "queued": ("Q", "A delivery is in line; also a parked version whose time has come."),
    "updated": ("Q", "A newer version took the place, or was parked (reason `parked`)."),
    "leased": ("F", "Granted to a consumer."),
    "kicked": ("K", "Granted and ended at once, by auto-ack."),
    "confirmed": ("S", "One of several consumers acknowledged it."),
    "completed": ("X", "The last one that was needed acknowledged it."),
    "nak": ("R", "Goes back by its holder's nak."),
    "requeue": ("R", "Goes back by its holder's requeue."),
    "reschedule": ("R", "Goes back by its holder's reschedule."),
    "release": ("Q S", "Goes back unstarted."),
    "lapse": ("R", "Goes back because the lease ran out. In the second document: Lease-Expired."),
    "declined": ("N", "Declined by its holder."),
    "rejected": ("I", "Rejected by its holder."),
    "exhausted": ("E", "Nothing is left to try. In the second document: Message-Expired."),
    "expired": ("E", "Its time ran out. In the second document: Message-Expired."),
    "obsolete": ("O", "Something newer has its place."),
    "cancelled": ("C", "Taken away by a person, or with its target."),
    "purged": ("C", "Taken away with all that waited."),
    "discarded": ("C", "A dead letter was thrown away."),
    "removed": ("", "A dead letter went because the target holds more of them than it may."),
    "changed": ("", "It has another priority, delay or time to live."),
    "recovered": ("", "A copy of a dead letter was sent. In the second document: (recovered)."),
    "replayed": ("", "A copy of a finished delivery was sent."),
    "created": ("", "A target was made."),
    "altered": ("", "A target has other settings."),
    "paused": ("", "A target hands out nothing for now."),
    "resumed": ("", "A target hands out again."),
    "deleted": ("", "A target is gone."),
}
# What is not a row of the table: how a delivery is born and granted (core/chain.py, core/route.py,
# core/claim.py).
BEFORE = (
    ("[*]", "L", "send"),
    ("L", "Q", "placed"),
    ("L", "U", "unchanged"),
    ("L", "E", "overflow of a channel"),
    ("waiting", "F", "receive"),
    ("waiting", "K", "receive with auto-ack"),
)
IN_THE_COURSE = {When.ALWAYS, When.ENOUGH, When.PARTLY}  # in the picture the verb alone says it


# --- the life of a message


def picture() -> str:
    """Who leads from where to where; a fact stands in place of the verb where any verb meets it."""
    lines = ["```mermaid", "stateDiagram-v2", "    direction LR"]
    for place in Place:
        inside = [state for state in State if PLACES.get(state) is place]
        lines.append(f"    state {name(place)} {{")
        lines += [f'        state "{s.value} {name(s)}" as {s.value}' for s in inside]
        lines.append("    }")
    lines.append('    state "L logged" as L')
    arrows: dict[tuple[str, str], list[str]] = {}
    for start, end, label in [*BEFORE, *_moves()]:
        labels = arrows.setdefault((start, end), [])
        if label not in labels:
            labels.append(label)
    lines += [f"    {start} --> {end} : {', '.join(said)}" for (start, end), said in arrows.items()]
    return "\n".join([*lines, "```"])


def _moves() -> Iterator[tuple[str, str, str]]:
    for row in TABLE:
        if row.to is not None:
            start = "F" if row.place is Place.LEASED else name(row.place)
            label = row.verb.value if row.when in IN_THE_COURSE else name(row.when)
            yield start, row.to.value, label


def states() -> str:
    rows = [
        (
            f"`{state.value}`",
            f"`{name(state)}`",
            f"`{name(PLACES[state])}`" if state in PLACES else "–",
            wire.lifecycle(state) if state in PLACES else "–",
            STATES[state] + (" Keeps no body." if state in BODILESS else ""),
        )
        for state in State
    ]
    return table("letter|name|place|in the second document|what it says", rows)


def places() -> str:
    return table("place|what is there", [(f"`{name(p)}`", WHERE[p]) for p in Place])


def verbs() -> str:
    return table("verb|by|what it says", [(f"`{v.value}`", *VERBS[v]) for v in Verb])


def facts() -> str:
    told = remarks_in(CORE / "lifecycle.py", "When")
    asked = {row.when for row in TABLE} - {When.ALWAYS}
    return table("fact|holds when", [(f"`{name(w)}`", told[w.name]) for w in When if w in asked])


def matrix() -> str:
    """Verb by place: what becomes of the delivery, in the order in which the rows are tried."""
    rows = [
        (f"`{verb.value}`", *(" · ".join(_cell(verb, place)) or "–" for place in Place))
        for verb in Verb
    ]
    return table("verb|" + "|".join(name(place) for place in Place), rows)


def _cell(verb: Verb, place: Place) -> Iterator[str]:
    for row in TABLE:
        if (row.verb, row.place) == (verb, place):
            when = "" if row.when is When.ALWAYS else f"{name(row.when)}: "
            stays = row.to is None and row.refuse is None
            yield when + ((stays and row.event) or becomes(row))


def becomes(row: Row) -> str:
    if row.refuse is not None:
        return f"refused, {row.refuse}"
    return "stays" if row.to is None else f"**{row.to.value}**"


def rows() -> str:
    """The whole table."""
    told = remarks_in(CORE / "lifecycle.py", "Ready")
    lines: list[tuple[str, ...]] = []
    for row in TABLE:
        counted = [f"{counter} + 1" for counter in row.add] + [f"{c} = 0" for c in row.zero]
        available = "" if row.ready is Ready.NEVER else told[row.ready.name] or name(row.ready)
        when = "" if row.when is When.ALWAYS else name(row.when)
        event = "" if row.event is None else f"`{row.event}`"
        facts_of_row = (event, available, ", ".join(counted), row.reason or "")
        lines.append((row.verb.value, name(row.place), when, becomes(row), *facts_of_row))
    return table("verb|place|if|becomes|event|available|counted|reason", lines)


def events() -> str:
    rows = [(f"`{k}`", EVENTS[k][0], "yes" if k in ENDINGS else "", EVENTS[k][1]) for k in kinds()]
    return table("event|letter|ends a version|what happened", rows)


def kinds() -> list[str]:
    """Every kind of event that the core writes, in the order of the words above."""
    found = {row.event for row in TABLE if row.event} | ENDINGS
    for file in sorted(CORE.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            found.update(text for text in _kinds_at(node) if text)
    order = {kind: place for place, kind in enumerate(EVENTS)}
    return sorted(found, key=lambda kind: (order.get(kind, len(order)), kind))


def _kinds_at(node: ast.AST) -> Iterator[str]:
    """`Event(kind="…")`, `_event("…")`, `event_of(…, "…")`, `kinds = {…: "…"}`."""
    said: list[ast.expr] = []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "Event":
            said = [keyword.value for keyword in node.keywords if keyword.arg == "kind"]
        elif node.func.id in ("_event", "event_of"):
            said = node.args
    elif (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Dict)
        and ast.unparse(node.targets[0]) == "kinds"
    ):
        said = node.value.values
    for value in said:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value


# --- limits


def all_limits() -> str:
    """Every name of core/limits.py."""
    lines: list[tuple[str, ...]] = []
    source = (CORE / "limits.py").read_text()
    for variable, value, remark in assigned(ast.parse(source).body, source):
        why = remark.removeprefix("µs").lstrip("; ")  # the unit has a column of its own
        lines.append((f"`{variable}`", *_measured(variable, value, remark), why))
    return table("name|number|unit|of what, and why", lines)


def _measured(variable: str, value: ast.expr, remark: str) -> tuple[str, str]:
    number: int = getattr(limits, variable)
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    if names & {"SECOND", "DAY"} or remark.startswith("µs"):
        return _span(number)
    if variable.endswith("_BYTES"):
        for size, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
            if number % size == 0:
                return f"{number // size}", unit
        return f"{number}", "bytes"
    return f"{number:,}", "characters" if variable.endswith("_CHARS") else ""


def _span(number: int) -> tuple[str, str]:
    spans = ((limits.DAY, "d"), (3600 * limits.SECOND, "h"), (60 * limits.SECOND, "min"))
    for size, unit in (*spans, (limits.SECOND, "s"), (limits.MS, "ms")):
        if number % size == 0:
            return f"{number // size}", unit
    return f"{number}", "µs"


# --- errors


def error_tree() -> str:
    lines = [(branch, kind) for branch, kind in _branches(errors.FairwayError)]
    width = max(len(branch + kind.__name__) for branch, kind in lines) + 2
    told = [f"{branch}{kind.__name__}".ljust(width) + first_line(kind) for branch, kind in lines]
    return "\n".join(["```text", *told, "```"])


def _branches(
    kind: type[errors.FairwayError], branch: str = "", below: str = ""
) -> Iterator[tuple[str, type[errors.FairwayError]]]:
    yield branch, kind
    children = kind.__subclasses__()
    for child in children:
        is_last = child is children[-1]
        twig, under = ("└── ", "    ") if is_last else ("├── ", "│   ")
        yield from _branches(child, below + twig, below + under)


def error_codes() -> str:
    """What a caller over HTTP sees; errors without a status of their own are 500."""
    lines = [
        (f"`{kind.__name__}`", f"`{kind.code}`", f"{status}", "yes" if kind.retryable else "no")
        for kind, status in problems.STATUS.items()
    ]
    return table("error|code|status over HTTP|the same call may go through later", lines)


# --- reading and writing


def name(member: Place | State | When | Ready) -> str:
    return member.name.lower().replace("_", " ")


def first_line(kind: type) -> str:
    return (kind.__doc__ or "").partition("\n")[0]


def table(head: str, rows: Iterable[tuple[str, ...]]) -> str:
    titles = head.split("|")
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def remarks_in(file: pathlib.Path, class_name: str) -> dict[str, str]:
    """Member of a class → the comment behind it, or nothing."""
    source = file.read_text()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            return {variable: remark for variable, _, remark in assigned(node.body, source)}
    raise LookupError(f"{file.name} has no class {class_name}")


def assigned(body: list[ast.stmt], source: str) -> Iterator[tuple[str, ast.expr, str]]:
    """Name, value, and the comment that stands on the lines of the assignment."""
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    for node in body:
        if isinstance(node, ast.Assign):
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign):
            target = node.target
        else:
            continue
        if isinstance(target, ast.Name) and node.value is not None:
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            remark = " ".join(comments[line] for line in lines if line in comments)
            yield target.id, node.value, remark


PARTS: dict[str, Callable[[], str]] = {
    "picture": picture,
    "states": states,
    "places": places,
    "verbs": verbs,
    "facts": facts,
    "matrix": matrix,
    "rows": rows,
    "events": events,
    "limits": all_limits,
    "error_tree": error_tree,
    "error_codes": error_codes,
}


def drawn(text: str) -> str:
    """The document, with what the code draws between its marks."""
    return DRAWN.sub(lambda found: f"{found[1]}{PARTS[found[2]]()}\n{found[3]}", text)


def main() -> None:
    for document in DOCUMENTS:
        before = document.read_text()
        after = drawn(before)
        document.write_text(after)
        print(f"{document.relative_to(CHECKOUT)}: {'drawn' if after != before else 'as it was'}")


if __name__ == "__main__":
    main()

"""Options of a read: what they mean, and that nothing unknown is let through."""

from __future__ import annotations

import pytest

from pyspark_fairway.errors import ConnectorError, behind
from pyspark_fairway.options import parse


def test_the_defaults_read_the_whole_log():
    asked = parse({})
    assert (asked.starting, asked.ending, asked.columns) == ("earliest", "latest", None)
    assert (asked.most, asked.fail_on_data_loss, asked.url) == (500_000, True, None)


def test_names_have_no_case_and_values_are_trimmed():
    asked = parse(
        {"MAXEVENTSPERPARTITION": " 7 ", "startingoffsets": "Latest", "columns": "at, id"}
    )
    assert (asked.most, asked.starting, asked.columns) == (7, "latest", ("at", "id"))


@pytest.mark.parametrize(
    "given",
    [
        {"startOffsets": "latest"},
        {"maxEventsPerPartition": "0"},
        {"maxEventsPerPartition": "many"},
        {"failOnDataLoss": "yes"},
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, str]):
    with pytest.raises(ConnectorError, match=r"^FAIRWAY_BAD_OPTION: .*; do "):
        parse(given)


def test_an_error_is_found_again_in_what_spark_makes_of_it():
    text = (
        "[PYTHON_EXCEPTION] …\n  pyspark_fairway.errors.ConnectorError: FAIRWAY_X_Y: it; is; do z"
    )
    found = behind(RuntimeError(text))
    assert found is not None
    assert (found.code, found.happened, found.remedy) == ("FAIRWAY_X_Y", "it; is", "z")
    assert behind(RuntimeError("something else")) is None

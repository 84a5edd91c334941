"""What Spark calls: the data source `fairway`, a thin adapter over options, offsets and client."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pyspark_fairway import client, offsets
from pyspark_fairway.errors import ConnectorError
from pyspark_fairway.options import Options, parse
from pyspark_fairway.schema import columns_of, event_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_log = logging.getLogger(__name__)


class DefaultSource(DataSource):
    """`spark.read.format("fairway")`. Spark finds it by the names of this class and its package."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._given = dict(options)

    @classmethod
    def name(cls) -> str:
        return "fairway"

    def schema(self) -> StructType:
        columns = parse(self._given).columns
        return event_schema() if columns is None else event_schema(columns)

    def reader(self, schema: StructType) -> DataSourceReader:  # Spark calls it by keyword
        return RangeReader(parse(self._given), schema)


class RangeReader(DataSourceReader):
    """Reads closed ranges of the log. It holds nothing at the broker, so any task may fail."""

    def __init__(self, asked: Options, wanted: StructType) -> None:
        self._url = client.url_of(asked.url)
        self._asked = asked
        self._columns = columns_of(wanted)

    def partitions(self) -> list[InputPartition]:
        log = client.log_of(self._url)
        start = offsets.starting(self._asked.starting, log)
        end = offsets.ending(self._asked.ending, log)
        ranges = offsets.between(start, end, log, self._lost)
        return [InputPartition(part) for part in offsets.cut(ranges, self._asked.most)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # what Spark makes of no partitions
            return
        import pyarrow as pa

        part: offsets.Range = partition.value
        rows = 0
        pieces = client.chunks(self._url, part, self._columns)
        with pa.ipc.open_stream(io.BufferedReader(_Pieces(pieces), 1 << 20)) as batches:
            for batch in batches:
                rows += batch.num_rows
                yield batch
        if rows != part.last - part.first + 1:
            raise ConnectorError(
                "SHORT_READ",
                f"events {part.first} to {part.last} of shard {part.shard} came as {rows} rows",
                "run it again; if it stays so, the store is damaged",
            )

    def _lost(self, error: ConnectorError) -> None:
        if self._asked.fail_on_data_loss:
            raise error
        _log.warning("%s", error)


class _Pieces(io.RawIOBase):
    """An iterator of bytes as a file."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        room = memoryview(buffer)
        size = min(len(room), len(self._left))
        room[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

"""Readers of log files, in the order in which they recognise a file without a known suffix."""

from drcrm.logs.readers.base import Reader
from drcrm.logs.readers.csv_files import CsvReader
from drcrm.logs.readers.dsjson import DsjsonReader
from drcrm.logs.readers.npz_files import NpzReader
from drcrm.logs.readers.tables import JsonReader, ParquetReader
from drcrm.logs.readers.vw_text import VwReader

READERS: tuple[type[Reader], ...] = ParquetReader, NpzReader, DsjsonReader, JsonReader, VwReader, CsvReader

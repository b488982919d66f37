"""The name of a partition: `main.sales/date=2024-01-01`, the same in the plan, in the event log and on the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from penstock.errors import UsageError
from penstock.model.names import DatasetName, to_dataset_name
from penstock.model.partitions.time_units import are_consecutive

_ESCAPED = re.compile(r"[%/=*?\x00-\x1f\x7f]")
"""What separates the parts of a reference, and what filters of the event log take for a pattern."""
_ESCAPED_IN_PATHS = frozenset("\"#%'*/:=?\\\x7f{[]^")
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows without a value, and what Delta therefore reads as NULL."""
_LONGEST = 255
_MOST_LISTED = 3


class PartitionError(UsageError):
    """A partition that was asked for does not exist or cannot be understood."""

    code = "partition"


@dataclass(frozen=True, slots=True, order=True)
class PartitionRef:
    """One partition of a dataset: the key that the dataset is partitioned by, and the value."""

    dataset: DatasetName
    key: str
    value: str

    def __str__(self) -> str:
        return f"{self.dataset}/{self.part}"

    @property
    def part(self) -> str:
        """The reference without its dataset: `date=2024-01-01`."""
        return to_part(self.key, self.value)


def to_part(key: str, value: str) -> str:
    """The name of a partition within its dataset; characters with a meaning in references are escaped as in a URL."""
    return f"{key}={_ESCAPED.sub(_escape, value)}"


def name_parts(parts: Sequence[str]) -> str:
    """The name of partitions of a dataset, each named by `to_part`: `date=2024-01-01..2024-03-31`.

    Where there are gaps, or no order, a few are listed and many are counted.
    """
    if len(parts) == 1:
        return parts[0]
    first, last = parts[0], parts[-1].partition("=")[2]
    if are_consecutive(first.partition("=")[2], last, len(parts)):
        return f"{first}..{last}"
    if len(parts) <= _MOST_LISTED:
        return ",".join([first, *(part.partition("=")[2] for part in parts[1:])])
    return f"{first}..{last} ({len(parts)} partitions)"


def find_unusable(key: str, value: str) -> str | None:
    """Why a value cannot be a partition, in words that do not show it; None if it can.

    Each partition is a folder, whose name has at most 255 bytes.
    """
    if not value:
        return "an empty text"
    if value == NULL_FOLDER:
        return f"the text {NULL_FOLDER}, which stands for NULL"
    size = len(key) + 1 + sum(3 if each in _ESCAPED_IN_PATHS or each < " " else len(each.encode()) for each in value)
    return f"a text of {len(value):,} characters" if size > _LONGEST else None


def split_ref(text: str, default_database: str) -> tuple[DatasetName, str | None, str]:
    """The dataset, the key and the value of a reference, before anyone knows whether they exist; the key is None without one."""
    name, slash, part = text.partition("/")
    try:
        dataset = to_dataset_name(name, default_database)
    except ValueError as error:
        raise PartitionError(f"{text}: {error}") from None
    if not slash:
        return dataset, None, ""
    key, equals, value = part.partition("=")
    if not equals or not key or not value:
        raise PartitionError(
            f"{text}: a partition is written as key=value, not {part!r}", hint=f"for example {dataset}/date=2024-01-01"
        )
    return dataset, key, unquote(value)


def _escape(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"

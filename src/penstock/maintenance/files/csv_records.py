"""Records of a CSV text as Spark's reader sees them: where each ends, and its values.

Spark reads quotes its own way: a quote inside a quoted value must be escaped (by default with a backslash), otherwise the value
ends at the next separator. A record that it would read in a way that is not certain here is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from penstock.maintenance.files.text_format import Dialect
from penstock.maintenance.files.values import RecordError

_NO_CHARACTER = "\0"
SPACES = "".join(map(chr, range(33)))
"""What the reader takes for space: every sign up to the space."""


@dataclass(frozen=True)
class CsvReader:
    """Reads records of one dialect. Outside of quotes, `line_ends` end a record; only the first of them may do so."""

    dialect: Dialect
    line_ends: tuple[str, ...] = ()
    normalizes: bool = False
    """Line ends inside of quotes become LF."""

    @cached_property
    def _end(self) -> re.Pattern[str]:
        """The end of a value that is not quoted."""
        return re.compile("|".join(map(re.escape, (self.dialect.sep, *self.line_ends))))

    @cached_property
    def _quoted(self) -> re.Pattern[str]:
        """A quoted value, with its quotes."""
        quote, escape = re.escape(self.dialect.quote), re.escape(self.dialect.escape)
        if self.dialect.escape in {self.dialect.quote, _NO_CHARACTER}:
            doubled = f"|{quote}{quote}" if self.dialect.escape != _NO_CHARACTER else ""
            return re.compile(f"{quote}((?:[^{quote}]{doubled})*+){quote}", re.DOTALL)
        return re.compile(f"{quote}((?:[^{quote}{escape}]|{escape}.)*+){quote}", re.DOTALL)

    @cached_property
    def _escaped(self) -> re.Pattern[str]:
        return re.compile(f"{re.escape(self.dialect.escape)}([{re.escape(self.dialect.quote + self.dialect.escape)}])")

    @cached_property
    def _spaces(self) -> re.Pattern[str]:
        """What may stand between a quoted value and the separators around it."""
        return re.compile(rf"(?:(?!{self._end.pattern})[\x00-\x20])*")

    def read(self, text: str, place: int) -> tuple[list[str | None], int]:
        """The values of the record that starts at a place, and where the next one starts.

        A value is None where Spark's reading of its quotes is not certain; where it ends is certain.
        """
        if self.dialect.quote == _NO_CHARACTER and text.find(_NO_CHARACTER, place) >= 0:
            raise RecordError("it has a NUL sign", place)
        values: list[str | None] = []
        start = place
        while True:
            value: str | None
            place = self._skip_spaces(text, place) if self.dialect.strips_start else place
            if self.dialect.quote != _NO_CHARACTER and text.startswith(self.dialect.quote, place):
                value, end = self._read_quoted(text, place, start)
            else:
                end = self._find_end(text, place)
                value = self._strip(text[place:end])
            values.append(value)
            if not text.startswith(self.dialect.sep, end):
                return values, self._skip_line_end(text, end, start)
            place = end + len(self.dialect.sep)

    def _read_quoted(self, text: str, place: int, start: int) -> tuple[str | None, int]:
        found = self._quoted.match(text, place)
        if found is None:
            raise RecordError("a quoted value does not end", start)
        end = self._skip_spaces(text, found.end())
        if end == len(text) or self._end.match(text, end):
            return self._to_value(found[1]), end
        after = found.end()
        while text.startswith(self.dialect.quote, after):
            after += 1
        if text[after : after + 1] == self.dialect.escape != self.dialect.quote:
            raise RecordError("a quote is followed by the escape character", start)
        return None, self._find_end(text, found.end())

    def _to_value(self, quoted: str) -> str:
        value = self._escaped.sub(r"\1", quoted)
        return value.replace(self.line_ends[0], "\n") if self.normalizes else value

    def _skip_spaces(self, text: str, place: int) -> int:
        found = self._spaces.match(text, place)
        return found.end() if found else place

    def _find_end(self, text: str, place: int) -> int:
        found = self._end.search(text, place)
        return found.start() if found else len(text)

    def _skip_line_end(self, text: str, place: int, start: int) -> int:
        found = next((end for end in self.line_ends if text.startswith(end, place)), "")
        if found and found != self.line_ends[0]:
            raise RecordError("records end with different line ends", start)
        return place + len(found)

    def _strip(self, value: str) -> str:
        return value.rstrip(SPACES) if self.dialect.strips_end else value

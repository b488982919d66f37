"""What a token is, how escapes are read, and how a value is found in bytes in every encoding."""

from __future__ import annotations

import base64
import json
import unicodedata
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scanning import ANN, needle

from penstock.maintenance.scan.escapes import readings, unescape_json, unescape_percent
from penstock.maintenance.scan.needles import NOBODY, find_beginning, is_cut_from, parse_column
from penstock.maintenance.scan.search import Searcher
from penstock.maintenance.scan.tokens import is_separate, is_whole

JOSE = "josé.müller@example.org"


def searcher(*texts: object) -> Searcher:
    return Searcher([needle(str(text), text) for text in texts], frozenset(), NOBODY)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("mail ", " now"),
        ('"', '"'),
        ("mailto:", "."),
        ("mailto:", ".\n"),
        ("<", ">"),
        ("user=", "&x=1"),
        ("/", "/"),
        ("b'", "'"),
        ("- ", " -"),
        ("...", "..."),
        ("日本:", "、"),
    ],
)
def test_a_whole_token_is_whole(before: str, after: str) -> None:
    assert is_whole(before, ANN, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("jo", ""),
        ("mary.", ""),
        ("x-", ""),
        ("x+", ""),
        ("x_", ""),
        ("", ".uk"),
        ("", "2"),
        ("", "@home"),
        ("", "-old"),
        ("é", ""),
        ("", "\u0301"),
        ("日", ""),
    ],
)
def test_a_part_of_a_longer_token_is_not(before: str, after: str) -> None:
    assert not is_whole(before, ANN, after)


def test_a_value_that_begins_or_ends_with_punctuation_has_its_edges() -> None:
    assert is_whole("call ", "+49 151 123", ", please")
    assert not is_whole("tel", "+49 151 123", "")
    assert is_whole("(", "(030) 1234567", ")")


def test_in_a_file_name_a_dash_and_a_dot_separate() -> None:
    assert is_separate("export-", "CAND-000001", ".json")
    assert is_separate("export_", "CAND-000001", "_v2")
    assert not is_separate("", "CAND-000001", "2.json")
    assert not is_separate("X", "CAND-000001", "")


@given(st.text(max_size=30))
def test_json_escapes_are_read_as_json_reads_them(text: str) -> None:
    for escaped in (json.dumps(text), json.dumps(text, ensure_ascii=False)):
        assert unescape_json(escaped[1:-1].encode(errors="surrogatepass")) in {
            text.encode(errors="surrogatepass"),
            text.encode(errors="replace"),
            text.encode("utf-16-be", errors="surrogatepass").decode("utf-16-be", errors="replace").encode(),
        }


@given(st.text(max_size=30))
def test_percent_escapes_are_read_as_they_were_written(text: str) -> None:
    plain = text.encode(errors="replace")
    assert unescape_percent(quote(plain, safe="").encode()) == plain


def test_nested_escapes_are_read_one_level_after_the_other() -> None:
    twice = quote(quote("a@b c")).encode()
    assert [reading for _, reading in readings(twice)] == [b"a%40b%20c", b"a@b c"]
    nested = json.dumps({"stats": json.dumps({"min": json.dumps("a\nb")})}).encode()
    assert b'"a\nb"' in list(readings(nested))[-1][1]


ENCODED = {
    "UTF-8": ANN.encode(),
    "UTF-16LE": ANN.encode("utf-16-le"),
    "UTF-16BE": ANN.encode("utf-16-be"),
    "percent": b"ann.miller%40example.org",
    "percent, all": "".join(f"%{byte:02x}" for byte in ANN.encode()).encode(),
    "percent, twice": b"ann.miller%2540example.org",
    "JSON, all": "".join(f"\\u{ord(character):04x}" for character in ANN).encode(),
    "JSON, mixed": b"\\u0061nn.miller\\u0040example.o\\u0072g",
    "JSON, nested": json.dumps(json.dumps("\\u0061nn.miller\\u0040example.org")).encode(),
    "percent in JSON": b"ann.miller\\u002540example.org",
    "base64, 0": base64.b64encode(ANN.encode()),
    "base64, 1": base64.b64encode(b"<" + ANN.encode()),
    "base64, 2": base64.b64encode(b"<<" + ANN.encode()),
    "base64, followed": base64.b64encode(ANN.encode() + b" and more"),
    "base64, no padding": base64.b64encode(ANN.encode()).rstrip(b"="),
    "base64, in a record": base64.b64encode(b'{"email":"' + ANN.encode() + b'"}'),
}


@pytest.mark.parametrize("content", ENCODED.values(), ids=ENCODED.keys())
@pytest.mark.parametrize("around", [(b"", b""), (b'{"x":"', b'"}'), (b"\x00\x01", b"\x02\x00"), (b"a, ", b" ;")])
def test_every_encoding_is_found_whole(content: bytes, around: tuple[bytes, bytes]) -> None:
    found = searcher(ANN).search(around[0] + content + around[1])
    assert {match.needle for match in found if match.is_whole} == {0}


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("given_form", ["NFC", "NFD"])
@pytest.mark.parametrize("codec", ["utf-8", "utf-16-le", "utf-16-be"])
def test_both_normal_forms_are_found(form: str, given_form: str, codec: str) -> None:
    text, stored = unicodedata.normalize(given_form, JOSE), unicodedata.normalize(form, JOSE)
    assert any(match.is_whole for match in searcher(text).search(stored.encode(codec)))
    encoded = base64.b64encode(b"." + stored.encode())
    assert any(match.is_whole for match in searcher(text).search(encoded))
    assert any(match.is_whole for match in searcher(text).search(json.dumps(stored).encode()))
    assert any(match.is_whole for match in searcher(text).search(quote(stored).encode()))


def test_latin1_is_found_where_it_differs() -> None:
    assert [match.form for match in searcher(JOSE).search(JOSE.encode("latin-1"))] == ["Latin-1"]


@pytest.mark.parametrize("alphabet", [base64.b64encode, base64.urlsafe_b64encode])
def test_both_alphabets_of_base64_are_found(alphabet: object) -> None:
    plain = "ÿþ~~~>>>???ÿþ".encode()
    for before in range(4):
        encoded = alphabet(b" " * before + plain)  # type: ignore[operator]
        assert any(match.form == "base64" for match in searcher(plain.decode()).search(encoded))


def test_base64_of_another_value_is_not_found() -> None:
    """The first and last characters share their bits with neighbours: the value is decoded before it counts."""
    text = "12345678"
    for before, after in ((b"", b""), (b"a", b""), (b"", b"b"), (b"ab", b"cd")):
        other = base64.b64encode(before + b"12345679" + after)
        assert searcher(text).search(other) == []
    inside = searcher(text).search(base64.b64encode(b"x12345678"))
    assert [match.is_whole for match in inside] == [False]


def test_bytes_are_found_as_they_are_and_in_base64() -> None:
    value = bytes(range(200, 216))
    assert [match.form for match in searcher(value).search(b"..." + value)] == ["bytes"]
    assert [match.form for match in searcher(value).search(base64.b64encode(b"." + value))] == ["base64"]


def test_less_than_eight_bytes_are_not_searched() -> None:
    assert searcher("ann@x.y").search(b"ann@x.y") == []
    assert len(searcher("ann@xx.y").search(b"ann@xx.y")) == 1
    assert len(searcher("日本語").search("日本語".encode())) == 1  # nine bytes


@pytest.mark.parametrize("before", ["x", "xy", "y.x"])
def test_one_character_before_it_at_the_start_of_a_block_counts(before: str) -> None:
    for codec in ("utf-8", "utf-16-le", "utf-16-be"):
        found = searcher(ANN).search((before + ANN).encode(codec))
        assert {match.is_whole for match in found if match.needle == 0} == {False}


def test_an_edge_between_blocks_is_left_to_the_block_that_has_the_context() -> None:
    find = searcher(ANN).search
    assert find(ANN.encode(), is_last=False) == []
    assert find(ANN.encode(), is_first=False) == []
    assert len(find(b" " * 16 + ANN.encode() + b" " * 16, is_first=False, is_last=False)) == 1


def test_the_beginning_that_a_truncated_statistic_keeps() -> None:
    long = "a.very.long.address.of.someone@example.org"
    assert find_beginning(long) == long[:31]
    assert find_beginning(long[:31]) is None
    assert find_beginning("日" * 40) == "日" * 20  # 60 bytes: Parquet truncates at 64
    assert is_cut_from(long[:32], long)
    assert is_cut_from(long[:32] + "\U0010ffff", long)
    assert is_cut_from(long[:31] + "z", long)
    assert not is_cut_from(long[:30] + "zz", long)
    assert not is_cut_from(long, long)
    assert not is_cut_from(long[:20], long)


def test_column_names_have_parts_and_quotes() -> None:
    assert parse_column("email").parts == ("email",)
    assert parse_column("customer.email").parts == ("customer", "email")
    assert parse_column("`a.b`.`c``d`").parts == ("a.b", "c`d")


@pytest.mark.parametrize("before", ["key_", "tokenX/", "aaaa", "a-b-c-", "v1/abcd"])
def test_base64_after_other_letters_is_found(before: str) -> None:
    """What stands before it may look like base64 as well: only text that makes sense joins a value."""
    for shift in range(3):
        content = before.encode() + base64.b64encode(b" " * shift + ANN.encode())
        assert any(match.is_whole for match in searcher(ANN).search(content)), shift

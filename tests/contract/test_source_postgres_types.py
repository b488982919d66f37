"""Every type of PostgreSQL, with its extremes: the value that arrives is the one of the source, or it is refused by name."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from penstock.databases.contract import Wanted
from penstock.errors import SourceError
from penstock.storage.local import LocalFiles
from tests.sources import Schema, land

BIG = "9" * 131_072 + "." + "9" * 16_383
"""The number with the most digits that PostgreSQL has."""

TYPES: dict[str, tuple[str, str, list[str]]] = {
    # column: (declared type, type in the lake, literals)
    "bool": ("bool", "boolean", ["true", "false"]),
    "int2": ("int2", "smallint", ["-32768", "0", "32767"]),
    "int4": ("int4", "int", ["-2147483648", "2147483647"]),
    "int8": ("int8", "bigint", ["-9223372036854775808", "9223372036854775807"]),
    "oid": ("oid", "bigint", ["0", "4294967295"]),
    "float4": ("float4", "float", ["NaN", "Infinity", "-Infinity", "3.4028235e38", "1e-45", "-0", "0.1", "16777217"]),
    "float8": ("float8", "double", ["NaN", "Infinity", "-Infinity", "1.7976931348623157e308", "5e-324", "-0", "0.1"]),
    "numeric": ("numeric", "string", ["NaN", "Infinity", "-Infinity", "1e500", "0.1", "1.10", "-0.000", BIG]),
    "numeric_money": ("numeric(12,2)", "decimal(12,2)", ["0.10", "-9999999999.99", "9999999999.99"]),
    "numeric_most": ("numeric(38,18)", "decimal(38,18)", ["9" * 20 + "." + "9" * 18, "-" + "9" * 20 + "." + "9" * 18]),
    "numeric_39": ("numeric(39,1)", "string", ["9" * 38 + ".9"]),
    "numeric_negative": ("numeric(5,-3)", "decimal(8,0)", ["99999000", "-1000"]),
    "numeric_fraction": ("numeric(3,5)", "decimal(5,5)", ["0.00999", "-0.00001"]),
    "text": (
        "text",
        "string",
        ["", " ", "NULL", "\\N", "\\.", "a,b", 'a"b', "a\nb\r\nc\td", "\x01", "é😀", "N/A", "t" * 70_000],
    ),
    "varchar": ("varchar(5)", "string", ["", "abc  "]),
    "bpchar": ("char(5)", "string", ["ab", ""]),
    "char": ('"char"', "string", ["a", "\\377"]),
    "name": ("name", "string", ["abc", ""]),
    "bytea": ("bytea", "binary", ["", "\\x", "\\x00ff5c22", "\\x" + "ab" * 40_000]),
    "date": ("date", "date", ["0001-01-01", "1582-10-10", "1969-12-31", "9999-12-31"]),
    "time": ("time", "string", ["00:00", "24:00", "23:59:59.999999"]),
    "timetz": ("timetz", "string", ["00:00+15:59", "23:59:59.999999-15:59"]),
    "timestamp": ("timestamp", "timestamp_ntz", ["0001-01-01", "1582-10-10 01:02:03", "9999-12-31 23:59:59.999999"]),
    "timestamptz": (
        "timestamptz",
        "timestamp",
        ["0001-01-01 00:00Z", "1900-01-01 00:00+00:19:32", "9999-12-31 23:59:59.999999Z"],
    ),
    "interval": ("interval", "string", ["1 year -2 days 00:00:00.000001", "-178000000 years", "infinity"]),
    "uuid": ("uuid", "string", ["00000000-0000-0000-0000-000000000000", "FFFFFFFF-ffff-ffff-ffff-ffffffffffff"]),
    "json": ("json", "string", ['{"a":  1.10, "a": 2}', "null", '"\\u0041"', "1e500"]),
    "jsonb": ("jsonb", "string", ['{"b": 1.10, "a": [null]}', "null", "12345678901234567890.12345678901234567890"]),
    "jsonpath": ("jsonpath", "string", ["$.a[*] ? (@ > 1)"]),
    "xml": ("xml", "string", []),  # the server of the tests is built without it
    "money": ("money", "string", ["-92233720368547758.08", "92233720368547758.07"]),
    "inet": ("inet", "string", ["10.0.0.1", "::1/64"]),
    "cidr": ("cidr", "string", ["10.0.0.0/8"]),
    "macaddr": ("macaddr", "string", ["08:00:2b:01:02:03"]),
    "macaddr8": ("macaddr8", "string", ["08:00:2b:01:02:03:04:05"]),
    "bit": ("bit(3)", "string", ["101"]),
    "varbit": ("varbit", "string", ["", "1011"]),
    "tsvector": ("tsvector", "string", ["a:1A 'b c':2"]),
    "tsquery": ("tsquery", "string", ["a & !b <-> c"]),
    "point": ("point", "string", ["(0.1,-1e300)"]),
    "lseg": ("lseg", "string", ["[(0,0),(0.1,1)]"]),
    "path": ("path", "string", ["((0,0),(1,1))"]),
    "box": ("box", "string", ["(1,1),(0,0)"]),
    "polygon": ("polygon", "string", ["((0,0),(1,1),(1,0))"]),
    "line": ("line", "string", ["{1,2,3}"]),
    "circle": ("circle", "string", ["<(0,0),0.1>"]),
    "int4range": ("int4range", "string", ["empty", "[1,10)", "(,)"]),
    "int8range": ("int8range", "string", ["[1,)"]),
    "numrange": ("numrange", "string", ["[1.10,2]"]),
    "daterange": ("daterange", "string", ["[infinity,]", "[0044-03-15 BC,2000-01-01)"]),
    "tsrange": ("tsrange", "string", ["[2000-01-01,infinity]"]),
    "tstzrange": ("tstzrange", "string", ["[2000-01-01 00:00Z,)"]),
    "int4multirange": ("int4multirange", "string", ["{}", "{[1,2),[5,7)}"]),
    "int8multirange": ("int8multirange", "string", ["{[1,2)}"]),
    "nummultirange": ("nummultirange", "string", ["{[1.10,2)}"]),
    "datemultirange": ("datemultirange", "string", ["{[2000-01-01,infinity]}"]),
    "tsmultirange": ("tsmultirange", "string", ["{[2000-01-01,2001-01-01)}"]),
    "tstzmultirange": ("tstzmultirange", "string", ["{[2000-01-01 00:00Z,)}"]),
    "xid": ("xid", "string", ["4294967295"]),
    "xid8": ("xid8", "string", ["18446744073709551615"]),
    "cid": ("cid", "string", ["4294967295"]),
    "tid": ("tid", "string", ["(4294967295,65535)"]),
    "pg_lsn": ("pg_lsn", "string", ["FFFFFFFF/FFFFFFFF"]),
    "pg_snapshot": ("pg_snapshot", "string", ["10:20:10,14"]),
    "txid_snapshot": ("txid_snapshot", "string", ["10:20:10,14"]),
    "regclass": ("regclass", "string", ["pg_class"]),
    "regcollation": ("regcollation", "string", ['"C"']),
    "regconfig": ("regconfig", "string", ["english"]),
    "regdatabase": ("regdatabase", "string", ["postgres"]),
    "regdictionary": ("regdictionary", "string", ["simple"]),
    "regnamespace": ("regnamespace", "string", ["pg_catalog"]),
    "regoper": ("regoper", "string", ["pg_catalog.||/"]),
    "regoperator": ("regoperator", "string", ["+(integer,integer)"]),
    "regproc": ("regproc", "string", ["now"]),
    "regprocedure": ("regprocedure", "string", ["now()"]),
    "regrole": ("regrole", "string", ["pg_monitor"]),
    "regtype": ("regtype", "string", ["integer"]),
    "refcursor": ("refcursor", "string", ["abc"]),
    "aclitem": ("aclitem", "string", ["=r/postgres"]),
    "int2vector": ("int2vector", "string", ["", "1 2 3"]),
    "oidvector": ("oidvector", "string", ["1 2 3"]),
    "gtsvector": ("gtsvector", "string", []),
    "domain_text": ("shout", "string", ["A"]),
    "domain_of_domain": ("small_price", "decimal(6,2)", ["1234.50"]),
    "enum": ("mood", "string", ["sad", 'o\'k, "x"']),
}
WITHOUT_VALUES = {"pg_node_tree", "pg_ndistinct", "pg_dependencies", "pg_mcv_list", "pg_brin_bloom_summary",
                  "pg_brin_minmax_multi_summary"}  # fmt: skip
"""Types of the catalog that take no value from anybody."""

JSON_TYPES: dict[str, tuple[str, list[tuple[str, object]]]] = {
    "integers": ("int[]", [("{}", []), ("{1,NULL,-3}", [1, None, -3]), ("{{1,2},{3,4}}", [[1, 2], [3, 4]])]),
    "texts": ("text[]", [('{"",NULL,"NULL","a,\\"b\\\\"}', ["", None, "NULL", 'a,"b\\'])]),
    "numbers": ("numeric[]", [("{1.10,NaN,1e30}", [Decimal("1.10"), "NaN", Decimal(10) ** 30])]),
    "floats": ("float8[]", [("{0.1,Infinity,5e-324}", [Decimal("0.1"), "Infinity", Decimal("5e-324")])]),
    "times": ("timestamptz[]", [("{2000-01-01 0:00:00.000001+01,-infinity}", ["1999-12-31T23:00:00.000001+00:00", "-infinity"])]),
    "documents": ("jsonb[]", [('{"{\\"a\\": 1}"}', [{"a": 1}])]),
    "pair": ("pair", [("(1,)", {"n": 1, "t": None}), ('(,"")', {"n": None, "t": ""})]),
    "pairs": ("pair[]", [('{"(1,x)",NULL}', [{"n": 1, "t": "x"}, None])]),
    "list_domain": ("two_numbers", [("{1,2}", [1, 2])]),
    "bytes": ("bytea[]", [('{"\\\\x00ff"}', ["\\x00ff"])]),
}  # fmt: skip


@pytest.fixture(scope="module")
def schema(postgres_server: str) -> Iterator[Schema]:
    schema = Schema(postgres_server)
    schema.execute(
        "CREATE DOMAIN shout AS text CHECK (VALUE = upper(VALUE))",
        "CREATE DOMAIN price AS numeric(6,2)",
        "CREATE DOMAIN small_price AS price CHECK (VALUE < 2000)",
        "CREATE DOMAIN two_numbers AS int[] CHECK (cardinality(VALUE) = 2)",
        "CREATE TYPE mood AS ENUM ('sad', 'o''k, \"x\"')",
        "CREATE TYPE pair AS (n int, t text)",
    )
    yield schema
    schema.drop()


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def as_text(value: object, type_: str) -> object:
    """A value that arrived, in a form that can be compared with the text that the server shows."""
    if type_ == "float" and value is not None:
        return struct.pack("f", value)
    if isinstance(value, float):
        return struct.pack("d", value)
    if isinstance(value, datetime):
        plain = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return (plain.isoformat(" "), value.tzinfo is not None)
    return value


def from_text(text: str, type_: str) -> object:
    if type_ in {"float", "double"}:
        return struct.pack("f" if type_ == "float" else "d", float(text))
    if type_ == "boolean":
        return text == "t"
    if type_ in {"smallint", "int", "bigint"}:
        return int(text)
    if type_.startswith("decimal"):
        return Decimal(text)
    if type_ == "binary":
        return bytes.fromhex(text[2:])
    if type_ == "date":
        return date.fromisoformat(text)
    if type_.startswith("timestamp"):
        return (text.removesuffix("+00"), type_ == "timestamp")
    return text


def known_types(schema: Schema) -> dict[str, tuple[str, str, list[str]]]:
    """The types that this version of the server has."""
    known = {str(row[0]) for row in schema.ask("SELECT typname::text FROM pg_type")}
    return {name: each for name, each in TYPES.items() if not each[0].isidentifier() or each[0] in known}


def test_no_type_is_forgotten(schema: Schema) -> None:
    query = """SELECT typname::text FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace
               AND typtype IN ('b', 'r', 'm', 'e', 'd') AND (typcategory <> 'A' OR typname IN ('int2vector', 'oidvector'))"""
    found = {str(row[0]) for row in schema.ask(query)}
    assert found - WITHOUT_VALUES == {name for name in TYPES if name in found}


def test_every_value_of_every_type_arrives_exactly(schema: Schema, tmp_path: Path) -> None:
    types = known_types(schema)
    columns = ", ".join(f'"{name}" {declared}' for name, (declared, _, _) in types.items())
    schema.execute(f"CREATE TABLE everything (row_number int PRIMARY KEY, {columns})")
    most = max(len(literals) for _, _, literals in types.values())
    with schema.connect() as connection:
        for number in range(most + 1):  # the last row has only NULLs
            given = {name: each[2][number] for name, each in types.items() if number < len(each[2])}
            names = "".join(f', "{name}"' for name in given)
            values = "".join(f", {literal(value)}" for value in given.values())
            connection.execute(f"INSERT INTO everything (row_number{names}) VALUES ({number}{values})".encode())
    with schema.table("everything") as table, table.open() as moment:
        look = {column.name: column.type for column in table.look().columns}
        _, rows = land(moment, table, tmp_path)
    arrived = {row["row_number"]: row for row in rows.to_pylist()}
    assert len(arrived) == most + 1
    settings = "SET TimeZone = 'UTC'; SET IntervalStyle = 'iso_8601'; SET lc_monetary = 'C'"
    with schema.connect() as connection:
        connection.execute(settings)
        for name, (_, type_, literals) in types.items():
            assert look[name] == type_, name
            column = f'"{name}"::numeric' if name == "money" else f'"{name}"'
            query = f"SELECT row_number, CASE WHEN {column} IS NULL THEN NULL ELSE format('%s', {column}) END FROM everything"
            for number, text in connection.execute(query.encode()).fetchall():
                expected = None if text is None else from_text(text, type_)
                assert as_text(arrived[number][name], type_) == expected, (name, number)
                assert (text is None) == (number >= len(literals)), (name, number)


def test_arrays_and_composites_arrive_as_json(schema: Schema, tmp_path: Path) -> None:
    columns = ", ".join(f"{name} {declared}" for name, (declared, _) in JSON_TYPES.items())
    schema.execute(f"CREATE TABLE documents (row_number int, {columns})")
    for name, (_, cases) in JSON_TYPES.items():
        for number, (text, _) in enumerate(cases):
            schema.execute(f"INSERT INTO documents (row_number, {name}) VALUES ({number}, {literal(text)})")
    with schema.table("documents") as table, table.open() as moment:
        assert {column.type for column in table.look().columns[1:]} == {"string"}
        _, rows = land(moment, table, tmp_path)
    for row in rows.to_pylist():
        for name, (_, cases) in JSON_TYPES.items():
            if row[name] is not None:
                assert json.loads(row[name], parse_float=Decimal) == cases[row["row_number"]][1], name


def test_arrays_of_every_type_arrive_as_json(schema: Schema, tmp_path: Path) -> None:
    types = {name: each for name, each in known_types(schema).items() if each[2] and not name.endswith("2vector")}
    columns = ", ".join(f'"{name}" {declared}[]' for name, (declared, _, _) in types.items())
    values = ", ".join(f"ARRAY[{literal(literals[0])}, NULL]::{declared}[]" for declared, _, literals in types.values())
    schema.execute(f"CREATE TABLE listed ({columns})", f"INSERT INTO listed VALUES ({values})")
    with schema.table("listed") as table, table.open() as moment:
        _, rows = land(moment, table, tmp_path)
    for name, text in rows.to_pylist()[0].items():
        found = json.loads(text)
        assert (len(found), found[1]) == (2, None), name


@pytest.mark.parametrize(
    ("declared", "good", "bad", "words"),
    [
        ("date", "2000-01-01", ["infinity", "-infinity", "0044-03-15 BC", "10000-01-01"], "infinite"),
        ("timestamp", "2000-01-01", ["infinity", "0001-12-31 BC", "10000-01-01"], "infinite"),
        ("timestamptz", "2000-01-01", ["-infinity", "0001-12-31 BC", "294276-12-31"], "infinite"),
        ("numeric(5,2)", "1.25", ["NaN"], "NaN"),
        ("int[]", "{1}", ["[0:1]={1,2}", "[1:1][2:3]={{1,2}}"], "do not count from 1"),
    ],
)
def test_values_without_a_place_are_refused_by_column_and_number(
    schema: Schema, tmp_path: Path, declared: str, good: str, bad: list[str], words: str
) -> None:
    schema.execute(
        f'CREATE TABLE refused (id int, "my.Column" {declared})',
        f"INSERT INTO refused SELECT i, {literal(good)} FROM generate_series(1, 100) i",
        *(f"INSERT INTO refused VALUES ({1000 + number}, {literal(text)})" for number, text in enumerate(bad)),
    )
    try:
        with schema.table("refused") as table, table.open() as moment:
            with pytest.raises(SourceError, match=r"my\.Column") as caught:
                land(moment, table, tmp_path)
            assert f"has {len(bad)} values" in str(caught.value)
            assert words in str(caught.value)
            assert not any(text in str(caught.value) for text in bad if text != "NaN")
            assert list(tmp_path.rglob("*.parquet")) == []
            assert "columns=" in (caught.value.hint or "")
            # The same moment goes on: without the column, and without the rows.
            assert land(moment, table, tmp_path, columns=("id",))[1].num_rows == 100 + len(bad)
            assert land(moment, table, tmp_path, where="id < 1000 -- only the good ones")[1].num_rows == 100
    finally:
        schema.execute("DROP TABLE refused")


def test_columns_with_any_name_dropped_generated_and_many(schema: Schema, tmp_path: Path) -> None:
    names = ['a"b', "Ä.ö", "select", "UPPER", "upper", " ", "%s", "{}", "'", "a\nb", "$1"]
    columns = ", ".join('"' + name.replace('"', '""') + f'" int DEFAULT {n}' for n, name in enumerate(names))
    schema.execute(
        f'CREATE TABLE "My.Odd ""Table" (gone text, {columns}, twice int GENERATED ALWAYS AS ("UPPER" * 2) STORED)',
        'ALTER TABLE "My.Odd ""Table" DROP COLUMN gone',
        'INSERT INTO "My.Odd ""Table" DEFAULT VALUES',
        f"CREATE TABLE wide ({', '.join(f'c{n} int DEFAULT {n}' for n in range(1600))})",
        "INSERT INTO wide DEFAULT VALUES",
    )
    with schema.table(f'{schema.name}."My.Odd ""Table"') as table, table.open() as moment:
        _, rows = land(moment, table, tmp_path)
        assert rows.to_pylist() == [{**{name: n for n, name in enumerate(names)}, "twice": 6}]
    with schema.table("WIDE") as table, table.open() as moment:
        _, rows = land(moment, table, tmp_path)
        assert list(rows.to_pylist()[0].values()) == list(range(1600))


def test_an_extension_type_arrives_as_its_text(schema: Schema, tmp_path: Path) -> None:
    """A type of somebody's own, as `hstore` or `citext` are: its text is what the server reads back."""
    schema.execute(
        "CREATE TYPE own",
        "CREATE FUNCTION own_in(cstring) RETURNS own AS 'textin' LANGUAGE internal IMMUTABLE STRICT",
        "CREATE FUNCTION own_out(own) RETURNS cstring AS 'textout' LANGUAGE internal IMMUTABLE STRICT",
        "CREATE TYPE own (INPUT = own_in, OUTPUT = own_out, LIKE = text)",
        "CREATE TABLE owned (v own)",
        """INSERT INTO owned VALUES ('"a"=>"1"'), (''), (NULL)""",
    )
    with schema.table("owned") as table, table.open() as moment:
        assert table.look().columns[0].type == "string"
        assert land(moment, table, tmp_path)[1].to_pylist() == [{"v": '"a"=>"1"'}, {"v": ""}, {"v": None}]


def test_no_rows_give_a_file_with_the_columns(schema: Schema, tmp_path: Path) -> None:
    schema.execute("CREATE TABLE nothing (a int, b bytea, c numeric(4,1))")
    with schema.table("nothing") as table, table.open() as moment:
        landed, rows = land(moment, table, tmp_path)
    assert (landed.rows, len(landed.files), rows.column_names) == (0, 1, ["a", "b", "c"])


def test_large_bytes_and_many_blocks(schema: Schema, tmp_path: Path) -> None:
    schema.execute(
        "CREATE TABLE large AS SELECT i AS id, decode(repeat(lpad(to_hex(i), 8, '0'), 5000), 'hex') AS b, "
        "CASE WHEN i % 7 = 0 THEN NULL WHEN i % 5 = 0 THEN '' ELSE repeat(E'x\\n', i % 11) END AS t "
        "FROM generate_series(1, 600) i"
    )
    with schema.table("large") as table, table.open() as moment:
        rows = land(moment, table, tmp_path)[1].to_pylist()
        assert moment.count(Wanted(("id",))) == 600
        assert moment.land(Wanted(("id",)), LocalFiles(tmp_path), "only/ids").rows == 600
    assert len(rows) == 600
    for row in rows:
        i = row["id"]
        assert row["b"] == i.to_bytes(4, "big") * 5000
        assert row["t"] == (None if i % 7 == 0 else "" if i % 5 == 0 else "x\n" * (i % 11))

"""SQL that a definition puts together: what it reads is found around the parts that only a run knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Folder

BEFORE = """
import sys, textwrap

COLUMNS = ["a", "b"]
TABLES = ["staging.x", "staging.y"]
WIDTH = 3

def hidden():
    return sys.platform.swapcase()

def upper(column):
    return f"upper({column})"

def query(table, where=""):
    text = f"SELECT * FROM {table}"
    if where:
        text += f" WHERE {where}"
    return text

class Thing:
    name = hidden()

thing = Thing()
"""


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        # results of the project's own functions
        ("return spark.sql(f\"SELECT {upper('a')} FROM staging.x\")", "staging.x"),
        ("return spark.sql('SELECT ' + upper('a') + ' FROM staging.x')", "staging.x"),
        ("return spark.sql(query('staging.x'))", "staging.x"),
        ("return spark.sql(query(TABLES[1], 'a > 1'))", "staging.y"),
        ("return spark.sql(query(table=f'staging.{name}'))\nname = 'x'", "staging.x"),
        ("return dp.read(query('x').split()[3])", "main.x"),
        ("def inner(t):\n    return dp.read(t)\nreturn inner(f'{TABLES[0]}')", "staging.x"),
        # joined
        ("return spark.sql('SELECT ' + ', '.join(COLUMNS) + ' FROM staging.x')", "staging.x"),
        ("return spark.sql(f\"SELECT {', '.join(upper(c) for c in COLUMNS)} FROM staging.x\")", "staging.x"),
        ("return spark.sql(' UNION ALL '.join(f'SELECT * FROM {t}' for t in TABLES))", "staging.x staging.y"),
        ("return spark.sql(' UNION ALL '.join([query(t) for t in TABLES]))", "staging.x staging.y"),
        ("parts = []\nfor t in TABLES:\n    parts.append(query(t))\nreturn spark.sql(' UNION ALL '.join(parts))",
         "staging.x staging.y"),
        (("parts = ['SELECT 1', 'FROM']\nparts.append('staging.x')\nparts.extend(['WHERE', 'TRUE'])\n"
          "return spark.sql(' '.join(parts))"), "staging.x"),
        # grown
        ("sql = 'SELECT 1'\nfor c in COLUMNS:\n    sql += f', {c}'\nsql += ' FROM staging.x'\nreturn spark.sql(sql)",
         "staging.x"),
        (("sql = 'SELECT * FROM staging.x'\nif WIDTH > 2:\n    sql += ' WHERE a'\nelse:\n    sql += ' WHERE b'\n"
          "return spark.sql(sql)"), "staging.x"),
        (("sql = 'SELECT * FROM staging.x'\nfor t in ['staging.y']:\n    sql = sql + f' UNION ALL SELECT * FROM {t}'\n"
          "return spark.sql(sql)"), "staging.x staging.y"),
        (("sql = ''\nfor i, t in enumerate(TABLES):\n    if i:\n        sql += ' UNION ALL '\n    sql += query(t)\n"
          "return spark.sql(sql)"), "staging.x staging.y"),
        (("sql = 'SELECT'\nrows = None\nfor t in TABLES:\n    sql = 'SELECT * '\n    sql += 'FROM ' + t\n"
          "    rows = spark.sql(sql)\nreturn rows"), "staging.x staging.y"),
        ("with open_it() as f:\n    sql = 'SELECT *'\n    sql += ' FROM staging.x'\nreturn spark.sql(sql)", "staging.x"),
        (("try:\n    sql = 'SELECT *'\nexcept ValueError:\n    sql = 'SELECT 1'\nsql += ' FROM staging.x'\n"
          "return spark.sql(sql)"), "staging.x"),
        (("match WIDTH:\n    case 1:\n        more = 'a'\n    case _:\n        more = 'b'\nmore += ' > 1'\n"
          "return spark.sql('SELECT * FROM staging.x WHERE ' + more)"), "staging.x"),
        ("name = 'staging.'\nname += 'x'\nreturn dp.read(name)", "staging.x"),
        ("def inner():\n    sql = 'SELECT * '\n    sql += 'FROM staging.x'\n    return spark.sql(sql)\nreturn inner()",
         "staging.x"),
        # a hole inside a quoted text cannot read anything
        ("return spark.sql(f\"SELECT * FROM staging.x WHERE a = '{hidden()}'\")", "staging.x"),
        ("return spark.sql('SELECT \"%s\" FROM staging.x' % hidden())", "staging.x"),
        ("return spark.sql(f'SELECT * FROM staging.x -- {hidden()}')", "staging.x"),
        # other ways to write the same
        ("return spark.sql('SELECT %s FROM %s' % (COLUMNS[0], TABLES[0]))", "staging.x"),
        ("return spark.sql('SELECT {} FROM {t}'.format(COLUMNS[0], t=TABLES[0]))", "staging.x"),
        ("return spark.sql(textwrap.dedent(f'''\n    SELECT {COLUMNS[0]}\n    FROM staging.x'''))", "staging.x"),
        ("return spark.sql(f'SELECT * FROM staging.x LIMIT {WIDTH:>4d}')", "staging.x"),
        ("return spark.sql('SELECT * FROM $table'.replace('$table', TABLES[0]))", "staging.x"),
        # a subquery in an expression
        ("return dp.read('staging.x').selectExpr('*', '(SELECT max(a) FROM staging.y) AS top')", "staging.x staging.y"),
        ("return dp.read('staging.x').where(f'a > (select max(a) from {TABLES[1]})')", "staging.x staging.y"),
        ("return dp.read('staging.x').filter('a IN (WITH t AS (SELECT a FROM staging.y) SELECT * FROM t)')",
         "staging.x staging.y"),
        # names that only look like a reader
        ("rows = dp.read('staging.x')\nreturn rows.where(rows.table == rows.sql)", "staging.x"),
    ],
)  # fmt: skip
def test_a_text_that_is_put_together_is_read(folder: Folder, body: str, inputs: str) -> None:
    spec = folder.define(body, BEFORE)
    assert {str(name) for name in spec.inputs} == set(inputs.split())
    assert [item for item in spec.untraced if "open_it" not in item.text] == []


PART = "a part that is known only at run time"
NAME = "name is known only at run time"
VALUE = "as a value"
WHOLE = "text is known only at run time"


@pytest.mark.parametrize(
    ("body", "inputs", "text"),
    [
        # in a column
        ("return spark.sql(f'SELECT {hidden()} FROM staging.x')", "staging.x", PART),
        ("return spark.sql(f'SELECT {thing.name}, b FROM staging.x')", "staging.x", PART),
        ("return spark.sql(f'SELECT {thing.name!r:>10} AS b FROM staging.x')", "staging.x", PART),
        ("return spark.sql(f'SELECT a.{hidden()}, b FROM staging.x AS a')", "staging.x", PART),
        ("return spark.sql(f'SELECT `{hidden()}`, b FROM staging.x AS a')", "staging.x", PART),
        ("return spark.sql('SELECT ' + hidden() + ' FROM staging.x')", "staging.x", PART),
        ("return spark.sql('SELECT %s, %d FROM staging.x' % (hidden(), thing.count))", "staging.x", PART),
        ("return spark.sql('SELECT %(a)5.2f FROM staging.x' % thing.values)", "staging.x", PART),
        ("return spark.sql('SELECT {} FROM staging.x'.format(hidden()))", "staging.x", PART),
        ("return spark.sql('SELECT {a} FROM staging.x'.format(**thing.all))", "staging.x", PART),
        ("return spark.sql('SELECT {:.2f} FROM staging.x'.format(thing.count))", "staging.x", PART),
        ("return spark.sql(f\"SELECT {', '.join(thing.columns)} FROM staging.x\")", "staging.x", PART),
        ("return spark.sql(f\"SELECT {', '.join(f'{c} AS x' for c in thing.columns)} FROM staging.x\")",
         "staging.x", PART),
        ("return spark.sql(f\"SELECT {', '.join(c for c in COLUMNS if c)} FROM staging.x\")", "staging.x", PART),
        ("return spark.sql('SELECT $c FROM staging.x'.replace('$c', hidden()))", "staging.x", PART),
        ("sql = 'SELECT 1'\nfor c in thing.columns:\n    sql += f', {c}'\nreturn spark.sql(sql + ' FROM staging.x')",
         "staging.x", PART),
        ("parts = ['SELECT 1 FROM staging.x']\nparts.append(hidden())\nreturn spark.sql(' '.join(parts))",
         "staging.x", PART),
        # in a condition, a number, a window, a type
        ("return spark.sql(f'SELECT * FROM staging.x WHERE a > {hidden()} AND b < {thing.b}')", "staging.x", PART),
        ("return spark.sql(f'SELECT * FROM staging.x WHERE {hidden()}')", "staging.x", PART),
        ("return spark.sql(f'SELECT * FROM staging.x LIMIT {thing.n}')", "staging.x", PART),
        ("return spark.sql(f'SELECT a + INTERVAL {thing.n} DAYS FROM staging.x')", "staging.x", PART),
        ("return spark.sql(f'SELECT cast(a AS {thing.type}) FROM staging.x')", "staging.x", PART),
        ("return spark.sql(f'SELECT sum(a) OVER (ORDER BY b ROWS {thing.n} PRECEDING) AS s FROM staging.x')",
         "staging.x", PART),
        # a whole clause
        ("return spark.sql(f'SELECT a FROM staging.x {hidden()}')", "staging.x", PART),
        ("return spark.sql(f'SELECT a FROM staging.x WHERE a = 1 {hidden()}')", "staging.x", PART),
        ("return spark.sql(f'SELECT a FROM plain WHERE a = 1 {hidden()}')", "main.plain", PART),
        ("return spark.sql(f'SELECT a FROM staging.x {hidden()} GROUP BY a {hidden()}')", "staging.x", PART),
        ("return spark.sql(f'SELECT a FROM staging.x x {thing.kind} JOIN staging.y USING (a)')",
         "staging.x staging.y", PART),
        ("return spark.sql(f'{hidden()} FROM staging.x')", "staging.x", PART),
        ("return spark.sql(f'{hidden()} UNION ALL SELECT * FROM staging.x')", "staging.x", PART),
        ("return spark.sql(f'WITH c AS ({hidden()}) SELECT * FROM c JOIN staging.x')", "staging.x", PART),
        ("return spark.sql(f'WITH {hidden()} SELECT * FROM c JOIN staging.x')", "staging.x", PART),
        ("return spark.sql(f'{hidden()} SELECT * FROM c JOIN staging.x')", "staging.x", PART),
        ("return spark.sql(hidden() + ' SELECT * FROM c, staging.x')", "staging.x", PART),
        # in a table
        ("return spark.sql(f'SELECT * FROM {hidden()} JOIN staging.x')", "staging.x", NAME),
        ("return spark.sql(f'SELECT * FROM staging.{hidden()} JOIN staging.x')", "staging.x", NAME),
        ("return spark.sql(f'SELECT * FROM staging.a_{hidden()}_b')", "", NAME),
        ("return spark.sql(f'SELECT * FROM staging.`a{hidden()}`')", "", NAME),
        ("return spark.sql(f'SELECT * FROM ({hidden()}) AS t JOIN staging.x')", "staging.x", NAME),
        ("return spark.sql(f\"SELECT * FROM IDENTIFIER('{hidden()}')\")", "", NAME),
        (("sql = 'SELECT * FROM staging.x'\nfor t in thing.tables:\n    sql += f' UNION ALL SELECT * FROM {t}'\n"
          "return spark.sql(sql)"), "staging.x", NAME),
        ("return spark.sql('SELECT * FROM %s' % hidden())", "", NAME),
        ("return spark.sql('SELECT * FROM ' + hidden())", "", NAME),
        # nothing is known, or it does not parse
        ("return spark.sql(hidden())", "", WHOLE),
        ("return spark.sql(thing.sql)", "", WHOLE),
        ("return spark.sql(''.join(thing.parts))", "", WHOLE),
        ("return spark.sql(f'SELECT FROM WHERE {hidden()} (')", "", "known only at run time"),
        ("sql = hidden()\nsql += ' '\nsql = sql.strip()\nreturn spark.sql(sql)", "", WHOLE),
        ("return spark.sql(hidden() if WIDTH else 'SELECT * FROM staging.x')", "staging.x", WHOLE),
        # names
        ("names = []\nnames.append(hidden())\nreturn [dp.read(n) for n in names]", "", NAME),
        ("names = []\nfor n in thing.names:\n    names += [n]\nreturn [dp.read(n) for n in names]", "", NAME),
        ("names = {}\nnames['a'] = hidden()\nreturn dp.read(names['a'])", "", NAME),
        ("names = ['a']\nnames.insert(0, hidden())\nreturn [dp.read(n) for n in names]", "", NAME),
        # the reader itself is a value
        ("run = dp.spark.sql\nreturn run('SELECT * FROM staging.x')", "", VALUE),
        ("return [dp.spark.sql][0]('SELECT * FROM staging.x')", "", VALUE),
        ("return list(map(dp.spark.table, TABLES))[0]", "", VALUE),
        ("return list(map(dp.read, TABLES))[0]", "", VALUE),
        ("import functools\nreturn functools.partial(spark.sql, 'SELECT * FROM staging.x')()", "", VALUE),
        ("return getattr(dp.spark, 'sql')('SELECT * FROM staging.x')", "", "looked up at run time"),
        ("return dp.read('staging.x').where(f'a > (SELECT max(a) FROM {hidden()})')", "staging.x", NAME),
    ],
)  # fmt: skip
def test_what_stays_unknown_is_said_and_the_rest_is_found(folder: Folder, body: str, inputs: str, text: str) -> None:
    spec = folder.define(body, BEFORE)
    assert {str(name) for name in spec.inputs} == set(inputs.split())
    found = [item for item in spec.untraced if item.code == "untraced_read"]
    assert len(found) == 1, spec.untraced
    assert text in found[0].text


def test_a_helper_with_branches_reads_what_each_may_name(folder: Folder) -> None:
    before = "def table(day):\n    if day:\n        return 'a'\n    return 'b'\n"
    assert {str(name) for name in folder.define("return dp.read(table(1))", before).inputs} == {"main.a", "main.b"}


def test_depends_on_settles_which_of_several_tables_is_read(folder: Folder) -> None:
    """A name that only one branch gives may not exist in this project; the user who gives depends_on knows."""
    before = "def table(day):\n    if day:\n        return 'a'\n    return 'b'\n"
    decorator = "@dp.table(depends_on=['b'])"
    assert [str(name) for name in folder.define("return dp.read(table(1))", before, decorator).inputs] == ["main.b"]
    body = "return spark.sql(f'SELECT * FROM staging.x JOIN {table(1)}')"
    spec = folder.define(body, before, decorator)
    assert ({str(name) for name in spec.inputs}, spec.untraced) == ({"staging.x", "main.b"}, ())


def test_functions_in_a_text_with_holes_count(folder: Folder) -> None:
    before = "def hidden(): return len"
    for body in ("spark.sql(f'SELECT {hidden()}, rand() FROM x')", "dp.read('x').selectExpr(f'{hidden()} + rand()')"):
        spec = folder.define(f"return {body}", before)
        assert "not_deterministic" in {item.code for item in spec.untraced}


def test_an_endless_or_huge_text_ends(folder: Folder) -> None:
    before = "def again(n):\n    return 'SELECT ' + again(n + 1)\n"
    assert [item.code for item in folder.define("return spark.sql(again(1))", before).untraced] == ["untraced_read"]
    many = "sql = 'SELECT 1'\n" + "if spark.x:\n    sql += ', 2'\nelse:\n    sql += ', 3'\n" * 30
    spec = folder.define(f"{many}return spark.sql(sql + ' FROM staging.x')")
    assert [item.code for item in spec.untraced] == ["untraced_read"]

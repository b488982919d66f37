"""The columns of JSON change files without a schema: as inferred, or in the target's types where values have no clear type."""

from __future__ import annotations

from pyspark.sql import types as T


def adopt_types(
    envelope: str | None, found: T.StructType, typed: T.StructType, known: T.StructType | None
) -> T.StructType:
    """The columns as inferred, but in the types of `known`, the target's, where the values have no clear type.

    `typed` lacks columns that are NULL in all rows: they have no type, and are inferred as text. A whole number may also be
    a value of a column of fractions.
    """
    if known is None:
        return found
    tree = T.StructType()
    for path in _image_paths(envelope, found):
        tree = _put(tree, path, known)
    return _adopt(found, typed, tree)


def find_untyped(
    envelope: str | None, found: T.StructType, typed: T.StructType, known: T.StructType | None
) -> frozenset[str]:
    """Columns of the data, in lower case, that are NULL in all rows and that the target does not have."""
    images = _image_paths(envelope, found)
    there, seen = ({name.lower() for path in images for name in _at(schema, path).names} for schema in (found, typed))
    return frozenset(there - seen - {name.lower() for name in (known.names if known else ())})


def _image_paths(envelope: str | None, found: T.StructType) -> list[tuple[str, ...]]:
    """Where a line has the row."""
    if envelope is None:
        return [()]
    if envelope == "events":
        return [("data",)]
    names = {name.lower() for name in found.names}
    above = ("payload",) if "payload" in names and "op" not in names else ()
    return [(*above, "before"), (*above, "after")]


def _at(schema: T.StructType, path: tuple[str, ...]) -> T.StructType:
    inner: T.DataType = schema
    for name in path:
        inner = _types(inner).get(name, T.StructType())
    return inner if isinstance(inner, T.StructType) else T.StructType()


def _put(tree: T.StructType, path: tuple[str, ...], known: T.StructType) -> T.StructType:
    if not path:
        return known
    name, *below = path
    types = _types(tree)
    types[name] = _put(_at(tree, (name,)), tuple(below), known)
    return T.StructType([T.StructField(each, type_) for each, type_ in types.items()])


def _types(type_: T.DataType) -> dict[str, T.DataType]:
    return {field.name.lower(): field.dataType for field in type_} if isinstance(type_, T.StructType) else {}


def _adopt(found: T.StructType, typed: T.StructType, known: T.StructType) -> T.StructType:
    there, seen, better = _types(found), _types(typed), _types(known)
    fields = []
    for column in found:
        key = column.name.lower()
        type_ = _adopt_type(column.dataType, seen.get(key), better.get(key))
        fields.append(T.StructField(column.name, type_))
    return T.StructType(fields + [T.StructField(f.name, f.dataType) for f in known if f.name.lower() not in there])


def _adopt_type(found: T.DataType, typed: T.DataType | None, known: T.DataType | None) -> T.DataType:
    if typed is None:
        return known or found
    match found, typed, known:
        case T.StructType(), T.StructType(), T.StructType():
            return _adopt(found, typed, known)
        case T.ArrayType(elementType=one), T.ArrayType(elementType=two), T.ArrayType(elementType=other):
            return T.ArrayType(_adopt_type(one, two, other))
        case T.LongType(), _, T.DoubleType() | T.FloatType() | T.DecimalType():
            return known
    return found

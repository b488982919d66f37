"""The JSON Schema of penstock.yml, for editors: made from the same declaration that checks the file.

`python -m penstock.config.json_schema` prints it; docs/penstock.schema.json is that output, and a test keeps it so.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from penstock.config.project_shape import PROJECT
from penstock.config.shape import AnyScalar, Field, Flag, ListOf, MapOf, Record, Shape, Text, Whole

_REFERENCE = {"type": "string", "pattern": r"\$\{"}


def project_schema() -> dict[str, Any]:
    """Give the JSON Schema of a project file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "penstock.yml",
        "description": "A Penstock project: where raw batches, definitions and tables are, and how Spark is reached.",
        **_to_schema(PROJECT),
    }


def schema_text() -> str:
    """Give the JSON Schema as the text of docs/penstock.schema.json."""
    return json.dumps(project_schema(), indent=2) + "\n"


def _to_schema(shape: Shape) -> dict[str, Any]:
    match shape:
        case Text(choices=choices) if choices:
            return {"anyOf": [{"enum": list(choices)}, _REFERENCE]}
        case Text():
            return {"type": "string", "minLength": 1, **({"examples": list(shape.examples)} if shape.examples else {})}
        case Whole():
            return {"anyOf": [{"type": "integer", "minimum": 1, "maximum": shape.most}, _REFERENCE]}
        case Flag():
            return {"anyOf": [{"type": "boolean"}, _REFERENCE]}
        case AnyScalar():
            return {"type": ["string", "number", "boolean"]}
        case ListOf():
            item = _to_schema(shape.item)
            items = {"type": "array", "items": item}
            return {"anyOf": [item, items]} if shape.or_one else items
        case MapOf():
            return {"type": ["object", "null"], "additionalProperties": _to_schema(shape.value)}
        case Record():
            return _record_schema(shape)


def _record_schema(shape: Record) -> dict[str, Any]:
    required = [name for name, field in shape.fields.items() if field.required]
    schema: dict[str, Any] = {
        "type": "object" if required else ["object", "null"],
        "additionalProperties": False,
        "properties": {name: _field_schema(field) for name, field in shape.fields.items()},
    }
    if required:
        schema["required"] = required
    if shape.exclusive:
        schema["not"] = {"required": list(shape.exclusive)}
    if shape.short:
        return {"anyOf": [_to_schema(shape.fields[shape.short].shape), schema]}
    return schema


def _field_schema(field: Field) -> dict[str, Any]:
    described = {"description": field.description, **_to_schema(field.shape)}
    return described if field.default is None else {**described, "default": field.default}


if __name__ == "__main__":
    sys.stdout.write(schema_text())

"""Partition values: strings in the log, typed by the schema (PROTOCOL "Partition Value
Serialization", rules SF-1 … SF-3, D-12)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from deltacli.delta import json_text
from deltacli.delta.schema import DataType, Primitive, Struct

_INTEGERS = ("byte", "short", "integer", "long")
_BITS = {"byte": 7, "short": 15, "integer": 31, "long": 63}
_WHOLE = re.compile(r"\s*[-+]?[0-9]+\s*")


def logical_partition_values(
    values: Mapping[str, Any], physical: Mapping[str, str]
) -> dict[str, str | None]:
    """The log's texts by logical column name, in the table's column order.

    `physical` maps logical to physical names. The protocol reads an empty string as null.
    """
    result = {logical: _text(values.get(name)) for logical, name in physical.items()}
    known = physical.values()
    result.update({key: _text(one) for key, one in values.items() if key not in known})
    return result


def _text(value: Any) -> str | None:
    """The log's text; careless writers put numbers where strings belong."""
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else json_text.dump(value).decode()


def physical_partition_columns(columns: tuple[str, ...], schema: Struct | None) -> dict[str, str]:
    """Logical partition column -> the key that `partitionValues` uses."""
    names = {one.name: one.physical_name for one in schema.fields} if schema else {}
    return {column: names.get(column, column) for column in columns}


def partition_value(text: str | None, data_type: DataType) -> Any:
    """The typed value of a partition text; None for null.

    Raises ValueError if the text is not of that type.
    """
    if text is None or text == "":
        return None
    name = data_type.name if isinstance(data_type, Primitive) else ""
    try:
        if name in _INTEGERS:
            number = int(text) if _WHOLE.fullmatch(text) else None
            if number is None or not -(2 ** _BITS[name]) <= number < 2 ** _BITS[name]:
                raise ValueError("out of range, or no whole number")
            return number
        if name in ("float", "double"):
            return float(text)
        if isinstance(data_type, Primitive) and data_type.decimal:
            return _decimal(text)
        if name == "boolean":
            return {"true": True, "false": False}[text.lower()]
        if name == "date":
            return date.fromisoformat(text)
        if name == "timestamp":
            moment = datetime.fromisoformat(text)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if name == "timestamp_ntz":
            return datetime.fromisoformat(text)
        if name == "binary":
            return text.encode("utf-8")
    except KeyError:
        raise ValueError(f"{text!r} is not a {name}") from None
    except ValueError as error:
        raise ValueError(f"{text!r} is not a {name}: {error}") from None
    return text


def _decimal(text: str) -> Decimal:
    """A number that any decimal type can hold; Arrow does not survive others."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError("no number") from None
    if not number.is_finite() or abs(number.adjusted()) > 76 or len(number.as_tuple().digits) > 76:
        raise ValueError("out of range")
    return number


def sort_key(values: Mapping[str, str | None], types: Mapping[str, DataType]) -> tuple[Any, ...]:
    """Orders partitions by their typed values, nulls first, unreadable texts last."""
    key: list[Any] = []
    for column, text in values.items():
        try:
            value = partition_value(text, types.get(column, Primitive("string")))
        except ValueError:
            key.append((2, text))
            continue
        if isinstance(value, datetime) and value.tzinfo is None:
            value = value.replace(tzinfo=UTC)
        if value is None:
            key.append((0, ""))
        elif isinstance(value, Decimal | float) and value != value:
            key.append((2, text))
        else:
            key.append((1, value))
    return tuple(key)

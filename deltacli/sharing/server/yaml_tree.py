"""YAML read strictly: each key is known, stands once, and has a value of its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from deltacli.errors import StorageError, UsageError


def load_tree(yaml: Any, text: str) -> Any:
    """The YAML's tree; a key that stands twice is an error instead of the last winning."""

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        pass

    def mapping(loader: Any, node: Any) -> Any:
        seen = set()
        for key, _ in node.value:
            if key.value in seen and isinstance(key.value, str):
                problem = f"the key {key.value!r} stands twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value if isinstance(key.value, str) else None)
        return loader.construct_mapping(node)

    def whole(loader: Any, node: Any) -> Any:
        loader.flatten_mapping(node)
        return mapping(loader, node)

    def number(kind: Any, name: str) -> Any:
        def construct(loader: Any, node: Any) -> Any:
            make = getattr(yaml.SafeLoader, f"construct_yaml_{name}")
            return kind(make(loader, node)).written_as(node.value)

        return construct

    Loader.add_constructor("tag:yaml.org,2002:map", whole)
    Loader.add_constructor("tag:yaml.org,2002:int", number(WrittenInt, "int"))
    Loader.add_constructor("tag:yaml.org,2002:float", number(WrittenFloat, "float"))
    Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda loader, node: str(node.value))
    return yaml.load(text, Loader)


class _Written:
    """A number that remembers how it was written: where a text belongs, that counts."""

    text = ""

    def written_as(self, text: str) -> Any:
        self.text = text
        return self


class WrittenInt(_Written, int):
    pass


class WrittenFloat(_Written, float):
    pass


def yaml_package() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise StorageError(
            f"sharing needs a package that is not installed: {error}",
            hint="pip install 'deltacli[server]'",
        ) from error
    return yaml


@dataclass(frozen=True, slots=True)
class Where:
    """Where in the file something stands."""

    path: str
    key: str

    def below(self, key: str) -> Where:
        return replace(self, key=f"{self.key}.{key}" if self.key else key)

    def at(self, number: int) -> Where:
        return replace(self, key=f"{self.key}[{number}]")

    def error(self, message: str, hint: str = "see docs/sharing.md") -> UsageError:
        where = f"{self.path}: {self.key}" if self.key else self.path
        return UsageError(f"{where} {message}", hint=hint)


Reader = Callable[[Any, Where], Any]


def read_mapping(tree: Any, known: Mapping[str, Reader], place: Where) -> dict[str, Any]:
    """The values of a mapping, each read by its row."""
    if not isinstance(tree, Mapping):
        raise place.error("is not a mapping of keys")
    found = {}
    for key, value in tree.items():
        if key not in known:
            close = get_close_matches(str(key), known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"the keys are {', '.join(known)}"
            raise place.error(f"has an unknown key {key!r}", hint)
        if value is not None:
            found[key] = known[key](value, place.below(key))
    return found


def text(value: Any, place: Where) -> str:
    if isinstance(value, _Written):
        return value.text
    if not isinstance(value, str) or value == "":
        raise place.error("is not a text", "put it in quotes")
    return value


def any_text(value: Any, place: Where) -> str:
    return "" if value == "" else text(value, place)


def flag(value: Any, place: Where) -> bool:
    if not isinstance(value, bool):
        raise place.error("is neither true nor false")
    return value


def number(least: int, most: int = 2**53) -> Reader:
    def read(value: Any, place: Where) -> int:
        if not isinstance(value, WrittenInt) or not least <= value <= most:
            raise place.error(f"is not a whole number from {least} on")
        return int(value)

    return read


def list_of(one: Reader) -> Reader:
    def read(value: Any, place: Where) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise place.error("is not a list")
        return tuple(one(item, place.at(number)) for number, item in enumerate(value))

    return read


def texts(value: Any, place: Where) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise place.error("is not a mapping of texts")
    return {
        str(key): str(one).lower() if isinstance(one, bool) else text(one, place.below(str(key)))
        for key, one in value.items()
    }


def one_of(*choices: str) -> Reader:
    def read(value: Any, place: Where) -> str:
        if value not in choices:
            raise place.error(f"is none of {', '.join(choices)}")
        return str(value)

    return read

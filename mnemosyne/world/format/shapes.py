"""Shapes (expected forms of values) that only world packs have: described values, trees, conditions and ops."""

from __future__ import annotations

from typing import Any

from mnemosyne.chains.quantities import is_expression
from mnemosyne.core.faults import Wording, did_you_mean, kind_name
from mnemosyne.core.plain_values import Path as KeyPath
from mnemosyne.schema.memory import Comparison, Condition
from mnemosyne.shapes import BROKEN, Definitions, Reading, Record, Shape, Text, Trouble
from mnemosyne.values import dataclass
from mnemosyne.world.format.conditions import parse_condition

IDENTIFIER = r"[^\s\x00-\x1f\x7f./~]{1,128}"
SLUG = r"[a-z0-9][a-z0-9_-]{0,63}"
_SCALARS = ["string", "number", "boolean", "null"]


def identifier() -> Text:
    """Return the shape of an id."""
    return Text(pattern=IDENTIFIER, hint="an id has 1 to 128 characters, none of them a space, '.', '/' or '~'")


@dataclass(frozen=True, kw_only=True, slots=True)
class Described(Shape):
    """A single value, optionally with a description: `value` or `[value, description]`."""

    def find_fault(self, value: Any, wording: Wording) -> Trouble | None:
        pair = isinstance(value, list) and len(value) == 2 and isinstance(value[1], str)
        if not isinstance(value[0] if pair else value, list | dict):
            return None
        return wording.wrong_kind(value, "a single value, or [value, description]"), "kind"

    def schema(self, defs: Definitions | None = None) -> dict[str, Any]:
        items = [{"type": _SCALARS}, {"type": "string"}]
        return {"anyOf": [{"type": _SCALARS}, {"type": "array", "prefixItems": items, "minItems": 2, "maxItems": 2}]}

    def describe(self) -> str:
        return "value or `[value, description]`"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree(Shape):
    """A mapping with any keys. Its content is checked elsewhere.

    `rules` are the keys that `$meta` may have in it (None: no mapping in it has rules).
    """

    rules: Record | None = None

    def find_fault(self, value: Any, wording: Wording) -> Trouble | None:
        return None if isinstance(value, dict) else (wording.wrong_kind(value, "a mapping"), "kind")

    def schema(self, defs: Definitions | None = None) -> dict[str, Any]:
        return {"type": "object"}

    def describe(self) -> str:
        return "mapping"

    def control(self) -> dict[str, Any]:
        return {"control": "tree", **({} if self.rules is None else {"rules": self.rules.control()})}


@dataclass(frozen=True, kw_only=True, slots=True)
class ShortCondition(Shape):
    """A condition as a mapping. If `short`, a text such as `hero.health > 20` is allowed too."""

    record: Record
    short: bool = True

    def read(self, value: Any, path: KeyPath, reading: Reading) -> Any:
        """Return `value` as a Condition. If `value` is invalid, add a fault at `path` to `reading` and return BROKEN."""
        if isinstance(value, str) and not self.short:
            return reading.refuse(path, "is short text, which has no message; write {path, op, value, message}")
        if isinstance(value, str):
            try:
                condition = parse_condition(value)
            except ValueError as error:
                return reading.refuse(path, str(error))
        else:
            before = len(reading.faults)
            made = self.record.read(value, path, reading)
            if len(reading.faults) > before:
                return BROKEN
            condition = Condition(**{**made, "op": Comparison(made["op"])})
        # Guards, which have no short form, may calculate with the numbers of their action.
        is_calculated = not self.short and is_expression(condition.value)
        wrong = None if is_calculated else _find_condition_fault(condition)
        return reading.refuse(path, wrong) if wrong else condition

    def schema(self, defs: Definitions | None = None) -> dict[str, Any]:
        record = self.record.schema(defs)
        return {"anyOf": [{"type": "string", "minLength": 3}, record]} if self.short else record

    def describe(self) -> str:
        return self.record.name

    def control(self) -> dict[str, Any]:
        return {"control": "text"} if self.short else self.record.control()


@dataclass(frozen=True, kw_only=True, slots=True)
class OpList(Shape):
    """An op (a change of the state) as a list `[VERB, path, value]`. `verbs` are all allowed verbs.

    For the verbs in `short` the value may be missing. For the verbs in `bare` the value must be missing.
    """

    verbs: tuple[str, ...]
    short: tuple[str, ...]
    bare: tuple[str, ...]

    def find_fault(self, value: Any, wording: Wording) -> Trouble | None:
        if isinstance(value, dict):
            return "is a mapping; a pack writes ops as lists, such as [SET, hero.health, 5]", "kind"
        if not isinstance(value, list) or not value:
            return wording.wrong_kind(value, "a list [VERB, path, value]"), "kind"
        verb = value[0]
        if not isinstance(verb, str) or verb not in self.verbs:
            near = did_you_mean(verb.upper(), self.verbs) if isinstance(verb, str) else ""
            return f"has the verb {verb!r}; choose one of {', '.join(self.verbs)}{near}", "value"
        if not ((len(value) == 2 and verb in self.short) or (len(value) == 3 and verb not in self.bare)):
            form = "[VERB, path]" if verb in self.bare else "[VERB, path, value]"
            return f"has {len(value)} parts; write {verb} as {form}", "value"
        if not isinstance(value[1], str) or not value[1].strip():
            return f"has {value[1]!r} as its path; write a flat path such as hero.health", "value"
        return None

    def schema(self, defs: Definitions | None = None) -> dict[str, Any]:
        return {"anyOf": [self._op_schema(with_value=True), self._op_schema(with_value=False)]}

    def describe(self) -> str:
        return "op"

    def _op_schema(self, *, with_value: bool) -> dict[str, Any]:
        verbs = [verb for verb in self.verbs if (verb not in self.bare if with_value else verb in self.short)]
        items: list[dict[str, Any]] = [{"enum": verbs}, {"type": "string", "pattern": r"\S"}]
        items += [{}] if with_value else []
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}


def _find_condition_fault(condition: Condition) -> str | None:
    if condition.op is Comparison.IN and not isinstance(condition.value, list):
        return "uses 'in' with something that is not a list; write the choices in [ ]"
    ordered = condition.op in (Comparison.LT, Comparison.LE, Comparison.GT, Comparison.GE)
    if ordered and (isinstance(condition.value, bool) or not isinstance(condition.value, int | float)):
        return f"compares {condition.op.value} with {kind_name(condition.value)}; write a number without quotes"
    return None

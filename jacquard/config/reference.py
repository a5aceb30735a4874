"""Makes the reference of all settings from the classes of the sections: a Markdown page for people, and a JSON Schema for
programs.

`python -m jacquard.config.reference docs` writes `en/settings.md`, its Chinese twin (`reference.toml`) and
`schema/settings.json` into the folder `docs`. The schema is JSON Schema 2020-12.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jacquard.config.fields import ANY, LOWER, is_section, table_of
from jacquard.config.sections import ArmConfig, RuntimeConfig
from jacquard.config.service import ServiceSettings
from jacquard.config.settings import BETWEEN, FROM_FILE, OF_NO_ARM, PREFIX, SERVICE
from jacquard.core.sentences.pages import write_pages
from mnemosyne.files import write_file
from mnemosyne.shapes import Field, Record, format_table, schema_document
from mnemosyne.values import dataclass

PAGE = "settings.md"
SCHEMA_FILE = "schema/settings.json"
TEXTS = Path(__file__).with_suffix(".toml")
_ARM_PATH = ("experiments", "EXPERIMENT", "ARM")
_INTRODUCTION = """# Settings

Every setting, with its default and its bounds. A setting is given in code (`RuntimeConfig`), in a YAML file (`--config FILE`,
`load_config`), or in an environment variable; the environment counts over the file, the file over the default. The section
`service` is read by `jacquard operate serve` alone, whose options count over the environment. A list or a mapping
in a variable is written as YAML (`[must, high]`, `{low: 3600}`). An unknown name or a value outside its bounds is refused with a
`ConfigError` that names it. Bounds are included.

A setting that is or contains a credential may be in a file, such as one that a container or a service manager provides: the
variable with `_FILE` at its end names the file (`JACQUARD_SERVICE__STORE_FILE=/run/secrets/store`). The file has the value
and nothing else; a line end after it does not count. If the file is missing, empty or unreadable, or if both variables are
set, nothing starts, and the error names the variable and the file. The value is in no error and no list of settings;
`jacquard operate doctor` and the studio show the variable and the path of the file as the source.

A call of the [service](service.md#operations) may bring settings of its own (`config`). The column 'in a call' says which ones a
token of scope `play` or `author` may set: to any value; up to a number (or to the service's own value, if that is more); or only
lower than the service's own value (a smaller number, `false`, an earlier word). Without an entry it may not be set. A token of
scope `admin` may set all of them. A new setting is closed until its definition opens it.

The same in a form for programs: [JSON Schema](../schema/settings.json), printed by
`jacquard author schema settings`.

This page is generated: `python -m jacquard.config.reference docs` writes it.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One setting: its path from the root of the configuration, and its row in the table of its section."""

    path: tuple[str, ...]
    field: Field

    @property
    def variable(self) -> str:
        """Name of the environment variable that sets the setting."""
        return PREFIX + BETWEEN.join(self.path).upper()


def settings_of(kind: type = RuntimeConfig, path: tuple[str, ...] = ()) -> Iterator[Setting]:
    """Yield every setting of the section class `kind`, in the order of its fields.

    The settings of a sub-section come at the place of its field. `path` is the path of the section itself.
    """
    for each in table_of(kind).fields:
        here = (*path, each.name)
        if not is_section(each):
            yield Setting(path=here, field=each)
        if isinstance(each.shape, Record) and each.shape.of is not None:
            yield from settings_of(each.shape.of, here)


def settings_schema() -> dict[str, Any]:
    """Return the JSON Schema of a settings file. Its root is RuntimeConfig with the section of the service.

    The sections are the `$defs` of the schema.
    """
    defs: dict[str, Any] = {}
    root = table_of(RuntimeConfig).object_schema(defs)
    root["properties"][SERVICE] = table_of(ServiceSettings).schema(defs)
    arm = defs[ArmConfig.__name__]["properties"]["config"]
    arm |= {"allOf": [{"$ref": "#"}], "properties": dict.fromkeys(sorted(OF_NO_ARM | {SERVICE}), False)}
    return {"$id": "urn:jacquard:settings", "title": "Settings", **root, "$defs": defs}


def settings_form() -> dict[str, Any]:
    """Return the controls of a form in which a settings file is edited."""
    form = table_of(RuntimeConfig).control()
    form["fields"].append(Field(name=SERVICE, shape=table_of(ServiceSettings)).control())
    return form


def schema_text() -> str:
    """Return the text of the JSON Schema that is published."""
    return schema_document(settings_schema())


def page_text() -> str:
    """Return the page of all settings: one table for the settings of the root, and one for each section."""
    whole = table_of(RuntimeConfig)
    root = [Setting(path=(each.name,), field=each) for each in whole.fields if not is_section(each)]
    kinds = [((each.name,), each.shape.of) for each in whole.fields if isinstance(each.shape, Record) and each.shape.of]
    parts = [_INTRODUCTION, f"## The turn\n\n{whole.doc}\n\n{_format_settings(root)}"]
    parts += [
        f"## `{path[0]}`\n\n{table_of(kind).doc}\n\n{_format_settings(settings_of(kind, path))}"
        for path, kind in (*kinds, (_ARM_PATH, ArmConfig), ((SERVICE,), ServiceSettings))
    ]
    return "\n".join(parts)


def publish(docs: Path) -> None:
    """Write the page in both languages and the schema into the folder `docs`."""
    (docs / SCHEMA_FILE).parent.mkdir(parents=True, exist_ok=True)
    write_file(docs / SCHEMA_FILE, schema_text())
    write_pages(docs, PAGE, page_text(), TEXTS)


def _format_settings(settings: Iterable[Setting]) -> str:
    return format_table(
        ("setting", "what", "default", "in a call", "environment variable", "meaning"),
        (
            (
                f"`{'.'.join(each.path)}`",
                each.field.describe(),
                each.field.describe_default(),
                _describe_call(each.field.rules.get("call")),
                _describe_variables(each),
                each.field.doc,
            )
            for each in settings
        ),
    )


def _describe_variables(setting: Setting) -> str:
    """Return the variable of a setting, and that of its file if it is a credential."""
    of_file = f", `{setting.variable}{FROM_FILE}`" if setting.field.rules.get("credential") is not None else ""
    return f"`{setting.variable}`{of_file}"


def _describe_call(call: float | None) -> str:
    """Return in words how a call may set a setting."""
    return {None: "", ANY: "any", LOWER: "lower"}.get(call, f"up to {call}")


if __name__ == "__main__":
    publish(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))

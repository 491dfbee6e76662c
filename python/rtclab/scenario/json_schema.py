"""The JSON Schema of scenario files, for completion and checks in editors."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import ModelSchema

from rtclab.scenario.descriptions import descriptions
from rtclab.scenario.merge import AS_WHOLE
from rtclab.scenario.table import Table
from rtclab.scenario.units import Quantity

Schema = dict[str, Any]

WHOLE = "Scenario"
PART = "PartOf"
DEFINITIONS = "#/$defs/"


def json_schema(model: type[BaseModel]) -> Schema:
    """The schema of a file: a complete scenario, or a part of one.

    A profile, and a file that ``extends`` another, may leave out required keys in any table, and so may a
    participant, who inherits from the scenario. In arrays and in the values of a path
    all keys are still required, since they are replaced as a whole. Rules about more than one field are not
    in the schema.
    """
    whole = model.model_json_schema(schema_generator=SchemaWithUnits)
    tables: Schema = whole.pop("$defs")
    whole["required"].remove("name")
    whole["properties"]["participants"]["minProperties"] = 1  # two names may be joined
    for key in ("video", "audio"):
        whole["properties"][key]["anyOf"].append({"const": False, "description": f"nobody sends {key}"})
    for table in (whole, tables["Participant"], tables["Server"]):
        table["properties"]["control"] = {
            "type": "string",
            "description": "Short form of `congestion_control`: `NAME` or `NAME,OPTION=VALUE,…`.",
        }
    part: Schema = _part(whole)
    part["properties"]["extends"] = {
        "type": "string",
        "description": "What this file is based on: a file in the same directory, without `.toml`, or a "
        "shipped scenario such as `first-call`.",
    }
    part["properties"]["profile"] = {"type": "boolean", "description": "Only other files extend this one."}
    parts = {f"{PART}{name}": _part(table) for name, table in tables.items()}
    tables["Participant"] = parts[f"{PART}Participant"]
    return part | {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": tables | parts | {WHOLE: whole},
        "if": {"not": {"anyOf": [{"required": ["extends"]}, {"required": ["profile"]}]}},
        "then": {"$ref": f"{DEFINITIONS}{WHOLE}"},
    }


class SchemaWithUnits(GenerateJsonSchema):
    """Describes fields, and writes defaults as in TOML: `25 ms` rather than a number of nanoseconds."""

    def model_schema(self, schema: ModelSchema) -> Schema:
        made = super().model_schema(schema)
        fields = schema["cls"].model_fields
        for name, text in descriptions(schema["cls"]).items():
            made["properties"][fields[name].alias or name]["description"] = " ".join(text.split())
        return made

    def encode_default(self, dft: Any) -> Any:
        if isinstance(dft, Quantity):
            return str(dft)
        return dft.model_dump(mode="json", exclude_unset=True) if isinstance(dft, Table) else dft


def _part(schema: Any) -> Any:
    """A copy without required keys, except in values that are replaced as a whole."""
    if isinstance(schema, list):
        return [_part(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "array":
        return schema
    part = {}
    for key, value in schema.items():
        if key == "$ref":
            part[key] = value.replace(DEFINITIONS, f"{DEFINITIONS}{PART}")
        elif key == "properties":
            part[key] = {name: field if name in AS_WHOLE else _part(field) for name, field in value.items()}
        elif key == "oneOf":  # an empty table fits several of them
            part["anyOf"] = _part(value)
        elif key not in ("required", "minProperties"):
            part[key] = _part(value)
    return part

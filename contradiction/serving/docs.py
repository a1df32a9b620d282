"""The page at /docs, which describes the requests of the service: HTML without scripts, and nothing of other hosts."""

import json
from collections.abc import Mapping
from html import escape
from typing import Any

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = """:root { color-scheme: light dark; font-family: system-ui, sans-serif; line-height: 1.5 }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { border-bottom: 1px solid #8886; padding: .3rem .6rem .3rem 0; text-align: left; vertical-align: top }
pre { background: #8882; padding: .6rem; overflow-x: auto }"""
Schema = Mapping[str, Any]


def page(document: Schema) -> str:
    """An OpenAPI document as HTML: each request with an example, then the fields of what is sent and answered."""
    schemas, parts, refusals = document["components"]["schemas"], [], {"401": "The token is missing or wrong."}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation['summary'])}.</p>")
            if "requestBody" in operation:
                sent = operation["requestBody"]["content"]["application/json"]["schema"]
                fields = schemas[_name(sent)]["properties"]
                example = {name: field["examples"][0] for name, field in fields.items() if "examples" in field}
                shown = escape(json.dumps(example, ensure_ascii=False, indent=1))
                parts.append(f'<p>Body: {_type(sent)}</p><pre tabindex="0">{shown}</pre>')
            [(kind, answer)] = operation["responses"]["200"]["content"].items()
            parts.append(f"<p>Answer: {_type(answer['schema']) if kind == 'application/json' else escape(kind)}</p>")
            refusals |= {
                status: one["description"] for status, one in operation["responses"].items() if status != "200"
            }
    refused = "".join(f"<li>{status}: {escape(description)}</li>" for status, description in sorted(refusals.items()))
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body><h1>{title}</h1>'
        "<p>Bodies and answers are JSON. If the service has a token, send it as "
        f"<code>Authorization: Bearer TOKEN</code>.</p>{''.join(parts)}<h2>Refusals</h2><ul>{refused}</ul>"
        f"<h2>Fields</h2>{''.join(_object(name, schema) for name, schema in schemas.items())}</body></html>"
    )


def _object(name: str, schema: Schema) -> str:
    rows = [
        f"<tr><td><code>{escape(field)}</code></td>"
        f"<td>{_type(value)}{'' if field in schema.get('required', ()) else ', optional'}</td>"
        f"<td>{escape(value.get('description', ''))}</td></tr>"
        for field, value in schema["properties"].items()
    ]
    description = escape(schema.get("description", ""))
    return f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{description}</p><table>{"".join(rows)}</table>'


def _type(schema: Schema) -> str:
    """The type of a value in words, as HTML."""
    if "$ref" in schema:
        return f'<a href="#{escape(_name(schema))}">{escape(_name(schema))}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(option) for option in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    return escape(schema.get("type", "any value"))


def _name(schema: Schema) -> str:
    return str(schema["$ref"]).rpartition("/")[2]

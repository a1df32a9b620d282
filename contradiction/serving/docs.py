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
    schemas = document["components"]["schemas"]
    requests = [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    refusals = {
        status: answer["description"]
        for _, _, operation in requests
        for status, answer in operation["responses"].items()
        if status != "200"
    }
    refused = "".join(f"<li>{status}: {escape(description)}</li>" for status, description in sorted(refusals.items()))
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body><h1>{title}</h1>'
        "<p>Bodies and answers are JSON. If the service has a token, send it as "
        "<code>Authorization: Bearer TOKEN</code>.</p>"
        f"{''.join(_request(*request, schemas) for request in requests)}"
        f"<h2>Refusals</h2><ul><li>401: The token is missing or wrong.</li>{refused}</ul>"
        f"<h2>Fields</h2>{''.join(_object(name, schema) for name, schema in schemas.items())}</body></html>"
    )


def _request(method: str, path: str, operation: Schema, schemas: Schema) -> str:
    parts = [f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation['summary'])}.</p>"]
    if "requestBody" in operation:
        sent = operation["requestBody"]["content"]["application/json"]["schema"]
        example = json.dumps(_example(schemas[_name(sent)]), ensure_ascii=False, indent=1)
        parts.append(f'<p>Body: {_type(sent)}</p><pre tabindex="0">{escape(example)}</pre>')
    [(kind, answer)] = operation["responses"]["200"]["content"].items()
    answered = _type(answer["schema"]) if kind == "application/json" else escape(kind)
    return f"{''.join(parts)}<p>Answer: {answered}</p>"


def _example(schema: Schema) -> dict[str, Any]:
    return {name: field["examples"][0] for name, field in schema["properties"].items() if "examples" in field}


def _object(name: str, schema: Schema) -> str:
    needed = schema.get("required", ())
    rows = [
        f"<tr><td><code>{escape(field)}</code></td><td>{_type(value)}{'' if field in needed else ', optional'}</td>"
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

"""Fills the templates of ``templates/``: cards, pages of results, the page of an analysis."""

from typing import Any

from contradiction.paths import TEMPLATES


def render(template: str, **values: Any) -> str:
    """Fills a template of ``templates/``. A missing value is an error."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        keep_trailing_newline=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
        autoescape=jinja2.select_autoescape(),  # in .html only; utterances may hold markup
    )
    return environment.get_template(template).render(**values)

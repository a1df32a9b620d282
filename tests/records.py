"""Changes to the records of runs, for tests."""

from contradiction.training import record


def with_options(request, **options):
    """The request of a run with other values of its recipe."""
    return {**request, "recipe": record.recipe(request).with_changes(**options).recorded()}

"""From a recipe to a model folder."""

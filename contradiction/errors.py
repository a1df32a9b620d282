"""The one error for what users hand in; the command line prints it as one line and exits with 2."""


class InputError(ValueError):
    """Something handed in is not usable; the message names what, where, and what would be right."""

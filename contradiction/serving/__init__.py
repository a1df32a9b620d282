"""The HTTP service: a detector behind an address, for many callers at a time."""

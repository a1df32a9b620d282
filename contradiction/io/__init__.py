"""Files, locks, the Hub, tables and templates: what reads and writes."""

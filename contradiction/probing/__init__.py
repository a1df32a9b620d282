"""Probes live bots as in section 4 of the paper: provokes contradictions, and reports how often there was one."""

"""Reruns and reports the paper: the grid of runs, its tables, and the page of results. The library uses none of it."""

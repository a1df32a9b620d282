"""Probes of live bots: makes a bot contradict itself, as section 4 of the paper does, and reports how often it did."""

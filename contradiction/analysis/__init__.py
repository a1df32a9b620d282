"""Where a detector fails: what `cdconv analyze` writes."""

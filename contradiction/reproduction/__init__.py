"""The paper's tables, rerun: what `cdconv reproduce` does."""

"""The page of `cdconv analyze`: where a detector fails."""

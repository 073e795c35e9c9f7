"""Features of frozen layers, which are computed once."""

"""Reports on what a classifier gets right and wrong."""

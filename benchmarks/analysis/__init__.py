"""Benchmarks of what analysis costs, beside other libraries."""

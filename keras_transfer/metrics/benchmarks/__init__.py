"""The official scores of benchmarks."""

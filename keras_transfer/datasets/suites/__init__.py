"""Suites of datasets: GLUE and SuperGLUE."""

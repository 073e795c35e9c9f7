"""Measurements beside other libraries: what runs contenders side by side, and a folder for each kind of measurement.

Each is a module that is started from the root of the project: `python -m benchmarks.steps.classifier_step --help`.
"""

"""The formats of exports, one file for each, whose first line names the format and describes it."""

"""Files, names, tables and arrays, which all subpackages use. Each file is imported by itself."""

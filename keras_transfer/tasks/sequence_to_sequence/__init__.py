"""Tasks that read one text and write another."""

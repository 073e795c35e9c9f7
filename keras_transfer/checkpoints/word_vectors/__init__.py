"""Files of word vectors, and the table that they contain."""

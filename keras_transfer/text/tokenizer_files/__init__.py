"""The files of a tokenizer in the folder of a checkpoint, read and written."""

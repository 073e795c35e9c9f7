"""Files of adapters: those of this library, and folders of PEFT."""

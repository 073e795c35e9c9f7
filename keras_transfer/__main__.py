"""`python -m keras_transfer` runs the command `keras-transfer`."""

import sys

from keras_transfer_command import main

if __name__ == "__main__":
    sys.exit(main())

"""The checks of protocols that TensorFlow makes for each operation, as fast as in Python 3.12."""

import functools
import sys
import typing


def remember_protocols():
    """Makes this process look for the members of a protocol once, and not for each value that is checked.

    TensorFlow asks of each argument of an operation whether it is a tensor, by a protocol. Python 3.11 then goes
    through all attributes of the protocol, which takes 5% of the time of building and running small models.
    """
    if sys.version_info < (3, 12):
        for name in ("_get_protocol_attrs", "_is_callable_members_only"):
            setattr(typing, name, functools.cache(getattr(typing, name)))

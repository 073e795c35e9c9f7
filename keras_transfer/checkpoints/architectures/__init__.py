"""The architectures whose checkpoints load: each file registers its record, and this one imports all of them."""

import importlib
import pkgutil

for module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(module.name)

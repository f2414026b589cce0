"""The program that is installed beside this package."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig


def program() -> str:
    """Return the path of the program vsetrain; raises FileNotFoundError where there is none."""
    name = "vsetrain.exe" if sys.platform == "win32" else "vsetrain"
    schemes = [sysconfig.get_path("scripts")]
    user = getattr(sysconfig, "get_preferred_scheme", lambda _: None)("user")
    if user:
        schemes.append(sysconfig.get_path("scripts", user))
    for folder in schemes:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path
    found = shutil.which(name)
    if found is None or not os.path.isabs(found):  # a relative one lies in the working folder
        raise FileNotFoundError(f"no program {name} in {', '.join(schemes)} or in an absolute folder of the path")
    return found

"""Pack a program, the Python package and the stage of `make install` into a wheel (PEP 427, 639). goreleaser calls it.

    wheel.py PROGRAM SYSTEM VERSION STAGE FOLDER
"""

import base64
import hashlib
import os
import re
import sys
import time
import zipfile
from pathlib import Path

# Tags of platforms. The program for Linux asks of glibc only what its first versions had; manylinux 2.17 is the oldest
# tag that pip knows. The static one asks of no C library. Programs of Go 1.26 run on macOS 12 and later.
PLATFORMS = {
    "linux_amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64",
    "linux_arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64",
    "static_amd64": "musllinux_1_1_x86_64",
    "static_arm64": "musllinux_1_1_aarch64",
    "darwin_amd64": "macosx_12_0_x86_64",
    "darwin_arm64": "macosx_12_0_arm64",
    "windows_amd64": "win_amd64",
}
METADATA = """Metadata-Version: 2.4
Name: vsetrain
Version: {version}
Summary: Train, evaluate and explore visual-semantic embedding networks
{homepage}Author: the vsetrain authors
License-Expression: Apache-2.0
{licences}Keywords: image-text retrieval,visual-semantic embedding
Requires-Python: >=3.9
Requires-Dist: numpy
Provides-Extra: yaml
Requires-Dist: pyyaml; extra == "yaml"
Description-Content-Type: text/markdown

{readme}"""


def pep440(version):
    """Writes what git describe says as Python does: 0.1.0-dev is 0.1.0.dev0, 1.2.3-4-gabc is 1.2.3.post4+gabc."""
    m = re.fullmatch(r"(\d+\.\d+\.\d+)(?:-(dev|rc|a|b)\.?(\d*))?(?:-(\d+)-(g[0-9a-f]+))?(?:-(dirty))?", version)
    if not m:
        sys.exit(f"version {version!r}; expected one such as 1.2.3, 1.2.3-rc.1 or 1.2.3-4-g0123abc")
    release, pre, number, commits, commit, dirty = m.groups()
    pre = ("." if pre == "dev" else "") + pre + (number or "0") if pre else ""
    local = ".".join(filter(None, (commit, dirty)))
    return release + pre + (f".post{commits}" if commits else "") + ("+" + local if local else "")


def contents(program, version, stage):
    """Returns the files of a wheel by their names."""
    info, data = f"vsetrain-{version}.dist-info/", f"vsetrain-{version}.data/"
    files = {f"vsetrain/{p.name}": p for p in Path("python/vsetrain").iterdir() if p.suffix in (".py", ".typed")}
    files[data + "scripts/" + program.name] = program
    doc, licences = stage / "share/doc/vsetrain", []
    for p in filter(Path.is_file, (stage / "share").rglob("*")):
        name = p.relative_to(stage).as_posix()
        if p.is_relative_to(doc / "licences") or p.name in ("LICENSE", "NOTICE") and p.parent == doc:
            licences.append(p.relative_to(doc).as_posix())
            files[info + "licenses/" + licences[-1]] = p
        else:
            files[data + "data/" + name] = p
    files = {name: p.read_bytes() for name, p in files.items()}
    lines = "".join(f"License-File: {name}\n" for name in sorted(licences))
    readme = Path("README.md").read_text(encoding="utf-8")
    homepage = re.search('^var Homepage = "(.*)"', Path("internal/system/build/build.go").read_text(), re.M)[1]
    homepage = f"Project-URL: Homepage, {homepage}\n" if homepage else ""
    files[info + "METADATA"] = METADATA.format(
        version=version, homepage=homepage, licences=lines, readme=readme
    ).encode()
    return info, files


def main(program, system, version, stage, folder):
    version, program = pep440(version), Path(program)
    info, files = contents(program, version, Path(stage))
    tags = "".join(f"Tag: py3-none-{tag}\n" for tag in PLATFORMS[system].split("."))
    files[info + "WHEEL"] = f"Wheel-Version: 1.0\nGenerator: vsetrain\nRoot-Is-Purelib: false\n{tags}".encode()
    record = ""
    for name in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(files[name])}\n"
    record += info + "RECORD,,\n"
    when = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    os.makedirs(folder, exist_ok=True)
    with zipfile.ZipFile(f"{folder}/vsetrain-{version}-py3-none-{PLATFORMS[system]}.whl", "w", zipfile.ZIP_DEFLATED) as z:
        for name in [*sorted(files), info + "RECORD"]:  # RECORD is the last, as PEP 427 advises
            entry = zipfile.ZipInfo(name, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if ".data/scripts/" in name else 0o100644) << 16
            z.writestr(entry, files.get(name, record))


main(*sys.argv[1:])

#!/usr/bin/env bash
# Make the release twice, in two folders with different times and umasks, and compare all files byte by byte. It is that
# for this machine's system, and for the others that TARGETS names. Run what is for this machine, and let pip install
# every wheel for the system it is for, where python3 has pip. No network is needed.
#
#   make release-check [TARGETS='windows/amd64 darwin/amd64']
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
host=$("$go" env GOHOSTOS)/$("$go" env GOHOSTARCH)
targets=$(printf '%s\n' "$host" ${TARGETS:-} | sort -u | xargs)

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
(umask 022 && make --no-print-directory release TARGETS="$targets" >/dev/null && mv bin/release "$out/first")
(umask 077 && make --no-print-directory release TARGETS="$targets" >/dev/null && mv bin/release "$out/second")
diff -r "$out/first" "$out/second" || { echo "release-check: two releases of one commit differ" >&2; exit 1; }
(cd "$out/first" && sha256sum --quiet --check SHA256SUMS)
echo "release-check: $targets: $(ls "$out/first" | wc -l) files are the same twice"

for archive in "$out"/first/*-"${host/\//-}"*.tar.gz; do # on Linux two: with and without shared libraries
  tar xzf "$archive" -C "$out"
  "$out/$(basename "$archive" .tar.gz)/vsetrain" version
done

if ! python3 -m venv --system-site-packages "$out/venv" 2>/dev/null; then
  echo "release-check: no venv here; no wheel is installed"
  exit 0
fi
pip() { "$out/venv/bin/pip" install --quiet --no-index --no-deps --disable-pip-version-check --find-links "$out/first" --pre "$@" vsetrain; }
for target in $targets; do
  case $target in
  "$host") continue ;;
  linux/amd64) platform=manylinux2014_x86_64 ;;
  linux/arm64) platform=manylinux2014_aarch64 ;;
  darwin/amd64) platform=macosx_12_0_x86_64 ;;
  darwin/arm64) platform=macosx_12_0_arm64 ;;
  windows/amd64) platform=win_amd64 ;;
  esac
  pip --only-binary :all: --platform "$platform" --target "$out/$platform"
  echo "release-check: pip installs the wheel for $platform: $(ls "$out/$platform/bin")"
done
pip
"$out/venv/bin/vsetrain" version
if "$out/venv/bin/python" -c 'import numpy' 2>/dev/null; then
  "$out/venv/bin/python" -m vsetrain version >/dev/null
  (cd "$out" && venv/bin/python -c 'import vsetrain; assert vsetrain.program().startswith(__import__("sys").prefix)')
else
  echo "release-check: NumPy is missing; the Python package is not imported"
fi
echo "release-check: the wheel works"

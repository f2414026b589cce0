#!/usr/bin/env bash
# Make the release for this machine's system twice, in two folders with different times and umasks, and compare all files
# byte by byte. Then install the wheel in a new environment, where python3 has venv, and run it. No network is needed.
# Run it as `make release-check`.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
target=$("$go" env GOHOSTOS)/$("$go" env GOHOSTARCH)

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
(umask 022 && make --no-print-directory release TARGETS="$target" >/dev/null && mv bin/release "$out/first")
(umask 077 && make --no-print-directory release TARGETS="$target" >/dev/null && mv bin/release "$out/second")
diff -r "$out/first" "$out/second" || { echo "release-check: two releases of one commit differ" >&2; exit 1; }
(cd "$out/first" && sha256sum --quiet --check SHA256SUMS)
echo "release-check: $(ls "$out/first" | wc -l) files are the same twice"

for archive in "$out"/first/*.tar.gz; do # on Linux two: with and without shared libraries
  tar xzf "$archive" -C "$out"
  "$out/$(basename "$archive" .tar.gz)/vsetrain" version
done

if ! python3 -m venv --system-site-packages "$out/venv" 2>/dev/null; then
  echo "release-check: no venv here; the wheel is not installed"
  exit 0
fi
"$out/venv/bin/pip" install --quiet --no-index --no-deps --disable-pip-version-check --find-links "$out/first" --pre vsetrain
"$out/venv/bin/vsetrain" version
if "$out/venv/bin/python" -c 'import numpy' 2>/dev/null; then
  "$out/venv/bin/python" -m vsetrain version >/dev/null
  (cd "$out" && venv/bin/python -c 'import vsetrain; assert vsetrain.program().startswith(__import__("sys").prefix)')
else
  echo "release-check: NumPy is missing; the Python package is not imported"
fi
echo "release-check: the wheel works"

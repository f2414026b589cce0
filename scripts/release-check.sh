#!/usr/bin/env bash
# Make the release twice, in folders with different times and umasks, and compare all files byte by byte. Run what is for
# this machine, and let pip install every wheel for the system it is for. ONLY=host makes and installs the wheel of this
# machine alone, without goreleaser, which takes two minutes to build: .ci/run does that.
#
#   make release-check [ONLY=host]
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
host=$("$go" env GOHOSTOS)-$("$go" env GOHOSTARCH)

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
if [ "${ONLY:-}" = host ]; then
  make --no-print-directory install DESTDIR="$out/stage" PREFIX= >/dev/null
  version=$("$out/stage/bin/vsetrain" version --json | sed -n 's/.*"version": *"\([^"]*\)".*/\1/p')
  python3 scripts/wheel.py "$out/stage/bin/vsetrain" "${host/-/_}" "$version" "$out/stage" "$out/first"
else
  (umask 022 && make --no-print-directory release >/dev/null && mv bin/release "$out/first")
  (umask 077 && make --no-print-directory release >/dev/null && mv bin/release "$out/second")
  diff -r "$out/first" "$out/second" || { echo "release-check: two releases of one commit differ" >&2; exit 1; }
  (cd "$out/first" && sha256sum --quiet --check SHA256SUMS)
  echo "release-check: $(ls "$out/first" | wc -l) files are the same twice"
  for archive in "$out"/first/*-"$host"*.tar.gz; do # on Linux two: with and without shared libraries
    tar xzf "$archive" -C "$out"
    "$out/$(basename "$archive" .tar.gz)/vsetrain" version
  done
fi

python3 -m venv --system-site-packages "$out/venv"
pip() { "$out/venv/bin/pip" install --quiet --no-index --no-deps --disable-pip-version-check --find-links "$out/first" --pre "$@" vsetrain; }
for wheel in "$out"/first/*.whl; do
  platform=$(basename "${wheel##*-}" .whl)
  pip --only-binary :all: --platform "${platform#*.}" --target "$out/$platform"
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

#!/usr/bin/env bash
# Check the static build: no interpreter, no shared library, and it runs where there is nothing else. As root it runs in
# an empty root directory; otherwise it runs where it lies.
#
#   scripts/static-check.sh bin/vsetrain-static
set -euo pipefail

program=${1:?the static build}
fail() { echo "static-check: $program: $*" >&2; exit 1; }

if command -v readelf >/dev/null; then
  wants=$(readelf -ld "$program" | grep -E 'INTERP|\(NEEDED\)' || true)
  [ -z "$wants" ] || fail "it is not static: $wants"
else
  echo "static-check: no readelf here; headers are not looked at"
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cp "$program" "$root/vsetrain"
mkdir "$root/tmp"
if [ "$(id -u)" = 0 ]; then
  run() { chroot "$root" /vsetrain "$@"; }
else
  echo "static-check: not root, so it runs outside an empty root directory"
  run() { (cd "$root" && ./vsetrain "$@"); }
fi
run version
run data synth /tmp/d --train 40 --dev 10 --test 10 --dim 32 --regions 4 >/dev/null
train() {
  local dir=$1
  shift
  run train --config demo --set data.dir=/tmp/d --run "/tmp/$dir" --set loss.name=lmh --set train.epochs=1 --set train.batch=20 "$@"
}
train cpu >/dev/null 2>&1 || { train cpu || fail "it cannot train"; }
said=$(train gpu --set device.kind=cuda 2>&1) && fail "it trains on CUDA, which it has not"
grep -q 'static build' <<<"$said" || fail "asked for CUDA it says: $said"
export VSETRAIN_BLAS=openblas
said=$(train blas 2>&1) && fail "it multiplies with OpenBLAS, which it cannot load"
grep -q 'loads no libraries' <<<"$said" || fail "asked for OpenBLAS it says: $said"
echo "static-check: $program is static and runs alone"

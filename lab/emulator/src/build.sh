#!/usr/bin/env bash
# Builds the emulated driver: libcuda and cuBLAS in one shared object, with the kernels of the given folder and those planted here.
# usage: build.sh KERNELS OUTPUT.so; CXX names the compiler (g++).
set -euo pipefail
kernels=$(cd "$1" && pwd)
mkdir -p "$(dirname "$2")"
output=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
cd "$(dirname "$0")"
cxx=${CXX:-g++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
common="-std=c++17 -O2 -g1 -fPIC -fno-semantic-interposition -Wall -Wno-unknown-pragmas -I. -I$kernels"
for f in *.cc; do
  "$cxx" $common -c "$f" -o "$work/${f%.cc}.o"
done
for f in "$kernels"/*.cu *.cu; do
  name=$(basename "${f%.cu}")
  {
    echo "#include \"$f\""
    echo "namespace { struct Register { Register() {"
    sed -nE 's/^KERNEL ([a-z0-9_]+)\(.*/  emu::Adapter<\1>::add("\1");/p' "$f"
    echo "} } instance; }"
  } > "$work/$name.gen.cc"
  "$cxx" $common -DVSE_EMULATOR -ffp-contract=off -Wno-unused-function -fvisibility=hidden \
    -fsanitize=thread --param tsan-instrument-func-entry-exit=0 -c "$work/$name.gen.cc" -o "$work/$name.k.o"
done
"$cxx" -shared "$work"/*.o -o "$output.new" -Wl,-soname,libcuda_emulated.so -Wl,-z,noexecstack -Wl,-Bsymbolic -ldl
mv "$output.new" "$output" # at once: others look for it

#!/usr/bin/env bash
# Compiles the kernels to PTX: for Turing (sm_75) and later, those of *_sm80.cu for Ampere and later, by clang alone, with
# nothing of NVIDIA's; and packs what the program embeds (ptx.zip, kernels.tsv).
# usage: build.sh [FOLDER FOR THE PTX, which is not packed then]; CLANG names the compiler (clang-19), GO the Go command.
set -euo pipefail
cd "$(dirname "$0")"
out=${1:-$(mktemp -d)}
for f in *.cu; do
  arch=sm_75
  case $f in *_sm80.cu) arch=sm_80 ;; esac
  "${CLANG:-clang-19}" -x cuda --cuda-device-only --cuda-gpu-arch=$arch -nocudainc -nocudalib -fdeclspec \
    -Xclang -target-feature -Xclang +ptx70 -O3 -S "$f" -o "$out/${f%.cu}.ptx"
done
if [ $# = 0 ]; then
  "${GO:-go}" run ./pack "$out"
  rm -r "$out"
fi

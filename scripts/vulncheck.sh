#!/usr/bin/env bash
# Looks for known vulnerabilities in what the program is built from. It ends with 0 and says why where govulncheck or its
# database is out of reach, with 1 where it found something or failed for another reason. Run it as `make vulncheck`.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
tool=${GOVULNCHECK:?names the version of govulncheck}

if ! why=$("$go" run "$tool" -version 2>&1); then
  printf 'skipped: %s cannot be had: %s\n' "$tool" "$(tail -n 1 <<<"$why")"
  exit 0
fi
if out=$("$go" run "$tool" ./... 2>&1); then
  printf '%s\n' "$out"
elif grep -qE 'fetching vulnerabilities|(dial tcp|proxyconnect|lookup) ' <<<"$out"; then
  printf 'skipped: no database of vulnerabilities: %s\n' "$(grep -m 1 -E 'fetching|dial|proxy|lookup' <<<"$out")"
else
  printf '%s\n' "$out"
  exit 1
fi

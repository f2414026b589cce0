#!/usr/bin/env bash
# Prints a Markdown table of the lines of Go in every package directory at two revisions: without tests, and of tests.
#
#   scripts/lines.sh OLD [NEW]      NEW is HEAD unless given
set -euo pipefail
cd "$(dirname "$0")/.."
old=${1:?usage: scripts/lines.sh OLD [NEW]}
new=${2:-HEAD}
old=$(git rev-parse --short "$old^{commit}") new=$(git rev-parse --short "$new^{commit}")

printf '| directory | lines at %s | at %s | of tests at %s | at %s |\n|---|---|---|---|---|\n' "$old" "$new" "$old" "$new"
for rev in "$old" "$new"; do
  git grep -c '' "$rev" -- '*.go'
done | awk -F: -v old="$old" -v new="$new" '
  {
    dir = $2
    if (!sub("/[^/]*$", "", dir)) dir = "."
    kind = $2 ~ /_test\.go$/ ? "test" : "code"
    n[dir, $1, kind] += $3
    n["all", $1, kind] += $3
    dirs[dir]
    dirs["all"]
  }
  END {
    for (dir in dirs)
      printf "%s| %s | %d | %d | %d | %d |\n", dir == "all" ? "~" : dir, dir == "all" ? dir : "`" dir "`",
        n[dir, old, "code"], n[dir, new, "code"], n[dir, old, "test"], n[dir, new, "test"]
  }' | LC_ALL=C sort | sed 's/^[^|]*//'

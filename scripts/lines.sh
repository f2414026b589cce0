#!/usr/bin/env bash
# Counts the lines of Go: of the product, of the laboratory (lab/) and of tests.
#
#   scripts/lines.sh                 of the working tree
#   scripts/lines.sh OLD [NEW]       a Markdown table of every package directory at two revisions; NEW is HEAD unless given
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# = 0 ]; then
  git ls-files -co --exclude-standard -z -- '*.go' | xargs -0 grep -sc '' | awk -F: '
    { n[$1 ~ /_test\.go$/ ? "tests" : $1 ~ /^lab\// ? "laboratory" : "product"] += $2 }
    END { printf "product    %7d\nlaboratory %7d\ntests      %7d\n", n["product"], n["laboratory"], n["tests"] }'
  exit
fi
old=$(git rev-parse --short "$1^{commit}") new=$(git rev-parse --short "${2:-HEAD}^{commit}")

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

#!/usr/bin/env bash
# Counts the words of the Markdown pages, and the phrases at which a native reader stumbles (CONTRIBUTING.md, Style): in
# Markdown, in help texts and messages (Go without tests, outside comments), and in comments (Go, CUDA, assembly).
#
#   scripts/words.sh [OLD]     compares the phrases of the working tree with those at OLD, fd2b2382 unless given
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
old=${1:-fd2b2382}
git cat-file -e "$old^{commit}" 2>/dev/null ||
  { echo "words.sh: no commit $old here: fetch the whole history, or name another commit" >&2; exit 1; }

# lines REV PATTERN... prints the files of a commit, or of the working tree, without generated ones.
lines() { git grep -hI -e '' "$1" -- "${@:2}"; }
# comments prints what follows // in sources. URLs, which have no space before it, are none.
comments() { awk 'match($0, /(^|[ \t])\/\/( |$)/) { print substr($0, RSTART + RLENGTH) }'; }
# literals prints what stands in quotes in Go, and in raw strings over several lines.
literals() {
  awk '/^(func|package|type|var) |^}/ { raw = 0 }
    { gsub(/.`\047|"`"/, "") } !raw { sub(/(^|[ \t])\/\/( .*)?$/, "") }
    { n = split($0, part, "`")
      for (i = 1; i <= n; i++) {
        if (raw) printf "%s ", part[i]
        else { m = split(part[i], piece, "\""); for (k = 2; k <= m; k += 2) printf "%s ", piece[k] }
        if (i < n) raw = !raw
      }
      print "" }'
}
# phrases counts them, also across line ends: "is no" without "there is no", "what is" where it begins a clause.
phrases() {
  tr -s '[:space:]' '\n' | awk '
    { word = tolower($0); gsub(/^[("*_`]+|[)"*_`.,;:!?]+$/, "", word); pair = last " " word
      if (pair ~ /^(that of|those of|so many|of yours|as of|no longer)$/) n[pair]++
      if (none && word != "longer") n["is no"]++
      none = pair == "is no" && before != "there"
      if (before " " pair == "of its own") n["of its own"]++
      if (pair == "what is" && begins) n["what is, before a clause"]++
      if (word == "behind") n[word]++
      begins = last == "" || raw ~ /[.,;:|]$/; before = last; last = word; raw = $0 }
    END { for (p in n) print p "\t" n[p] }'
}
table() { # NAME, files with the counts then and now
  printf '\n| %s | %s | now | %% |\n|---|---:|---:|---:|\n' "$1" "$old"
  awk -F'\t' 'FILENAME == ARGV[1] { then[$1] = $2; t += $2 } FILENAME == ARGV[2] { now[$1] = $2; s += $2 } { all[$1] }
    function row(name, t, n) { printf "| %s | %d | %d | %s |\n", name, t, n, t ? int(100 * n / t) : "" }
    END { for (p in all) row(p, then[p], now[p]); row("~all", t, s) }' "$2" "$3" | sort | sed 's/~//'
}
compare() { # NAME FILTER PATTERN...
  table "$1" <(lines "$old" "${@:3}" | $2 | phrases) <(lines --untracked "${@:3}" | $2 | phrases)
}

git ls-files -co --exclude-standard -z -- '*.md' | xargs -0 wc -w 2>/dev/null | sort -rn | awk '$2 != "total" {
    print; kind = $2 ~ /^docs\/log\// ? "docs/log" : $2 ~ /^docs\// ? "docs without log" : "outside of docs"
    n[kind] += $1; n["all"] += $1 }
  END { print ""; for (k in n) printf "%7d %s\n", n[k], k }'
compare Markdown cat '*.md'
compare 'help texts and messages' literals '*.go' ':!*_test.go'
compare comments comments '*.go' '*.cu' '*.cuh' '*.s'

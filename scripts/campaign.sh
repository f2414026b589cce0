#!/usr/bin/env bash
# Power failures, faults, kills, damages, sweeps on bad machines, load, waits, and hostile files and answers,
# drawn by SEED for TIME, through the readers of the program: runs the tests that draw them for longer than `make test`
# does, and rewrites their tables of docs/log/verify.md; with PAGE= empty it only prints them. Run it as `make campaign
# TIME=1h SEED=1`. TIME is a number with s, m or h, and KINDS chooses some of the tables. Power failures, faults and
# sweeps are tried by PROCESSES at a time, one for each processor where it is not given. Sweeps are faster where TMPDIR
# is in memory.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
time=${TIME:-2m} seed=${SEED:-1} page=${PAGE-docs/log/verify.md} processes=${PROCESSES:-$(nproc)}
kinds=${KINDS:-disturbed kills damages sweeps load waits hostile}
declare -A shares=([disturbed]=55 [kills]=7 [damages]=5 [sweeps]=20 [load]=3 [waits]=3 [hostile]=10)
case $time in
*h) seconds=$((${time%h} * 3600)) ;;
*m) seconds=$((${time%m} * 60)) ;;
*s) seconds=${time%s} ;;
*) echo "TIME: expected a number with s, m or h, such as 20m, found $time" >&2; exit 2 ;;
esac
all=0
for kind in $kinds; do
  [ -n "${shares[$kind]:-}" ] || { echo "KINDS: expected some of ${!shares[*]}, found $kind" >&2; exit 2; }
  all=$((all + shares[$kind]))
done
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
export CGO_ENABLED=0
failed=0

# of KIND [PERCENT]: the seconds of a kind, or of a part of it.
of() { echo $((seconds * ${shares[$1]} * ${2:-100} / 100 / all)); }

# part PACKAGE COPIES ARGUMENTS...: runs a test in so many processes, with their number for each @, and keeps the rows
# that they print.
part() {
  local package=$1 copies=$2 program i pids=(); shift 2
  program=$work/${package//\//_}
  [ -e "$program" ] || "$go" test -c -o "$program" "./$package"
  for ((i = 0; i < copies; i++)); do
    (cd "$package" && exec "$program" -test.v -test.timeout 0 "${@//@/$i}") >"$work/log$i" 2>&1 &
    pids+=($!)
  done
  for ((i = 0; i < copies; i++)); do
    wait "${pids[i]}" || { failed=1; grep -v 'campaign:\|=== ' "$work/log$i" | head -60; }
    sed -n 's/^.*campaign: \(.*\): \([0-9]*\) found, \([0-9]*\) tried, \([0-9]*\) failed$/\1|\2|\3|\4/p' "$work/log$i" \
      >>"$work/rows"
  done
}

disturbed() { # with a row for all that is disturbed
  local each package
  for each in cmd/vsetrain:82 internal/run/training:8 internal/apps/extract:6 internal/apps/sweep:4; do
    package=${each%:*}
    part "$package" "$processes" -test.run '^TestDisturbed' -crash-seed "$seed" -crash-shard @ -crash-shards "$processes" \
      -crash-time "$(of disturbed $((${each#*:} / 3)))s" -fault-time "$(of disturbed $((${each#*:} * 2 / 3)))s"
  done
  awk -F'|' -v OFS='|' '{ one = $0; sub(/: .*/, ": all", $1); print; print one }' "$work/rows" |
    sort -s -t: -k1,1 >"$work/all"
  mv "$work/all" "$work/rows"
}

kills() {
  part cmd/vsetrain 1 -test.run '^TestKillAndResume$' -kills $(($(of kills) * 10 / 7 + 1)) -kill-seed "$seed"
}

damages() {
  part internal/run/verify 1 -test.run '^(TestDamages|TestSetsOfParts)$' -damage-time "$(of damages 50)s" \
    -damage-seed "$seed"
}

sweeps() { # what is simulated takes turns; each process begins 100,000 seeds behind the one before
  GOMAXPROCS=1 part internal/apps/sweep "$processes" -test.run '^TestSimulatedSweeps$' -sweep-time "$(of sweeps)s" \
    -sweep-seed "${seed}@00000"
}

load() {
  part internal/apps/serve 1 -test.run '^(TestOverload|TestServedUnderLoad)$' -load-time "$(of load)s"
}

waits() { # of work under a lock, and of ranks for a processor; the second wants a machine that is idle
  part data 1 -test.run '^TestWorkOfRemovals$' -work-rounds $(($(of waits) / 10 + 1))
  part cmd/vsetrain 1 -test.run '^TestBesideNeighbours$' -neighbours $(($(of waits) / 20 + 1))
}

# go test says FAIL where -fuzztime ends while a worker starts or answers (golang/go 75804), and has found nothing then.
timed_out() {
  grep -q '^ *context deadline exceeded$' "$work/log" && ! grep -qE 'Failing input|panic:|_test\.go:|hung or terminated' "$work/log"
}

hostile() {
  local file target ran n
  for file in $(grep -rlE '^func Fuzz' --include='*_test.go' . | sort); do # each a moment
    for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
      ran=0; "$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$(($(of hostile) / 30 + 1))s" -fuzzminimizetime 10x \
        "$(dirname "$file")" >"$work/log" 2>&1 </dev/null || timed_out ||
        { ran=1; failed=1; grep -v 'fuzz: elapsed' "$work/log" | head -20; }
      n=$(sed -n 's/^fuzz: elapsed.*execs: \([0-9]*\).*/\1/p' "$work/log" | tail -1)
      echo "$(basename "$(dirname "$file")") $target|${n:-0}|${n:-0}|$ran" >>"$work/rows"
    done
  done
}

commit=$(git describe --always --exclude '*' --abbrev=12 --dirty=+changes)
for kind in $kinds; do
  : >"$work/rows"
  "$kind"
  {
    echo "Seed $seed, $(of "$kind") s, $(date -u +%F), commit $commit:"
    printf '\n| %s | there are | tried | not as promised |\n|---|---:|---:|---:|\n' "$kind"
    awk -F'|' '!($1 in found) { order[++n] = $1 } { found[$1] += $2; tried[$1] += $3; bad[$1] += $4 }
      END { for (i = 1; i <= n; i++) print "|", order[i], "|", found[order[i]], "|", tried[order[i]], "|",
        bad[order[i]], "|" }' "$work/rows"
  } >"$work/table"
  cat "$work/table"
  [ -n "$page" ] || continue
  awk -v table="$work/table" -v kind="$kind" '
    $0 == "<!-- /campaign " kind " -->" { while ((getline line <table) > 0) print line; inside = 0 }
    !inside { print }
    $0 == "<!-- campaign " kind " -->" { inside = 1 }' "$page" >"$work/page"
  cp "$work/page" "$page"
done
exit $failed

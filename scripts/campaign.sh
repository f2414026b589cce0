#!/usr/bin/env bash
# Power failures, faults, kills, damages, flipped bits, sweeps on bad machines, load, and hostile files and answers, drawn
# by SEED for TIME, through the readers of the program: runs the tests that draw them for longer than `make test` does,
# and rewrites the table of docs/reliability.md; with PAGE= empty it only prints it. Run it as `make campaign TIME=1h
# SEED=1`. TIME is a number with s, m or h.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
time=${TIME:-2m} seed=${SEED:-1} page=${PAGE-docs/reliability.md}
case $time in
*h) seconds=$((${time%h} * 3600)) ;;
*m) seconds=$((${time%m} * 60)) ;;
*s) seconds=${time%s} ;;
*) echo "TIME: expected a number with s, m or h, such as 20m, found $time" >&2; exit 2 ;;
esac
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
export CGO_ENABLED=0
"$go" test -c -o "$work/program" ./cmd/vsetrain
"$go" test -c -o "$work/verify" ./internal/run/verify
"$go" test -c -o "$work/train" ./train
"$go" test -c -o "$work/sweep" ./internal/apps/sweep
"$go" test -c -o "$work/serve" ./internal/apps/serve

failed=0
# part FOLDER ARGUMENTS...: runs a test and keeps the rows that it prints.
part() {
  local folder=$1; shift
  (cd "$folder" && "$@" -test.v -test.timeout 0) >"$work/log" 2>&1 || { failed=1; grep -v 'campaign:\|=== ' "$work/log" | head -60; }
  sed -n 's/^.*campaign: \(.*\): \([0-9]*\) found, \([0-9]*\) tried, \([0-9]*\) failed$/| \1 | \2 | \3 | \4 |/p' "$work/log" |
    sort -s -t: -k1,1 | tee -a "$work/rows"
}
part cmd/vsetrain "$work/program" -test.run '^TestDisturbedCommands$' -crash-seed "$seed" \
  -crash-time $((seconds * 30 / 100))s -fault-time $((seconds * 25 / 100))s
part cmd/vsetrain "$work/program" -test.run '^TestKillAndResume$' -kills $((seconds / 10 + 1)) -kill-seed "$seed"
part internal/run/verify "$work/verify" -test.run '^TestDamages$' -damage-time $((seconds * 5 / 100))s -damage-seed "$seed"
part train "$work/train" -test.run '^TestFlippedBits$' -flips $((seconds * 200)) -flip-seed "$seed"
part internal/apps/sweep "$work/sweep" -test.run '^TestSimulatedSweeps$' -sweep-time $((seconds * 15 / 100))s \
  -sweep-seed $((seed * 1000000))
part internal/apps/serve "$work/serve" -test.run '^(TestOverload|TestServedUnderLoad)$' -load-time $((seconds * 3 / 100))s
# go test says FAIL where -fuzztime ends while a worker starts or answers (golang/go 75804), and has found nothing then.
timed_out() {
  grep -q '^ *context deadline exceeded$' "$work/log" && ! grep -qE 'Failing input|panic:|_test\.go:|hung or terminated' "$work/log"
}
targets=$(grep -rlE '^func Fuzz' --include='*_test.go' . | sort)
for file in $targets; do # each a moment
  for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
    each=$((seconds * 10 / 100 / 30 + 1))
    ran=ran; "$go" test -run '^$' -fuzz "^$target\$" -fuzztime "${each}s" -fuzzminimizetime 10x "$(dirname "$file")" \
      >"$work/log" 2>&1 </dev/null || timed_out || { ran=failed; failed=1; grep -v 'fuzz: elapsed' "$work/log" | head -20; }
    n=$(sed -n 's/^fuzz: elapsed.*execs: \([0-9]*\).*/\1/p' "$work/log" | tail -1)
    echo "| hostile input: $(basename "$(dirname "$file")") $target | ${n:-0} | ${n:-0} | $([ $ran = ran ] && echo 0 || echo 1) |" |
      tee -a "$work/rows"
  done
done

{
  echo "Seed $seed, $time, $(date -u +%F), commit $(git describe --always --exclude '*' --abbrev=12 --dirty=+changes):"
  printf '\n| kind | there are | tried | not as promised |\n|---|---:|---:|---:|\n'
  cat "$work/rows"
} >"$work/table"
cat "$work/table"
[ -z "$page" ] && exit $failed
awk -v table="$work/table" '
  /^<!-- \/campaign -->$/ { while ((getline line <table) > 0) print line; inside = 0 }
  !inside { print }
  /^<!-- campaign -->$/ { inside = 1 }' "$page" >"$work/page"
cp "$work/page" "$page"
exit $failed

#!/usr/bin/env bash
# The tests that take minutes: every fuzz target for FUZZTIME (20s), and the race detector over the packages that share
# memory between goroutines, where a C compiler is there for it, a training run killed 50 times,
# intervals and p-values of 1,000 made-up worlds, 10,000 questions of Python (where NumPy is there), and more. Run it as
# `make test-long`.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
fuzztime=${FUZZTIME:-20s}

grep -rlE '^func Fuzz' --include='*_test.go' . | sort | while read -r file; do
  sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | while read -r target; do
    echo "fuzz $(dirname "$file") $target for $fuzztime"
    "$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" -fuzzminimizetime 10x "$(dirname "$file")" </dev/null
  done
done

if command -v cc >/dev/null; then
  echo "race detector"
  CGO_ENABLED=1 "$go" test -race -timeout 30m ./internal/compute/par ./internal/compute/device/... ./internal/files/runfs ./data ./eval ./train
else
  echo "race detector left out: it needs a C compiler (cc)"
fi

echo "1,000 worlds whose difference is known"
VSETRAIN_WORLDS=1000 "$go" test -v -run 'Coverage|Uniform' ./internal/stats

echo "a training that is killed 50 times ends with the bits of one that is not"
"$go" build -o bin/vsetrain ./cmd/vsetrain
"$go" test -v -count=1 -run '^TestKillAndResume$' ./cmd/vsetrain -kills 50 -program "$PWD/bin/vsetrain"
echo "a gallery is whole after 300 kills"
"$go" test -v -count=1 -run AmendIsWhole ./data -amend-kills 300

echo "100,000 queries that are answered together have the hits of search"
"$go" test -v -timeout 60m -run ManyQueries ./internal/apps/search -queries 100000

echo "10,000 questions of threads, forked processes and interrupts have their own answers"
VSETRAIN_QUESTIONS=10000 "$go" test -v -count=1 -run '^TestScripts/python_package$' ./cmd/vsetrain

echo "simulated sweeps"
"$go" test -v -timeout 60m -run '^TestSimulatedSweeps' ./internal/apps/sweep -sweep-time 10m

echo "ranks: every network with every loss over MPI; one killed 20 times, and stopped 5 times"
VSETRAIN_LONG=1 "$go" test -v -timeout 60m -run TestRanksOverMPI ./train
"$go" test -v -timeout 30m -run TestHurtRanks ./cmd/vsetrain -rank-kills 20 -rank-hangs 5

bash scripts/precisions.sh

make release-check

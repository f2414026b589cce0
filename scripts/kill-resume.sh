#!/bin/sh
# Kill a training run with SIGKILL at random moments, also while it writes checkpoints, resume it each time, and compare the
# result with the uninterrupted run: weights, moments and metrics have to be the same bit for bit.
#
#   scripts/kill-resume.sh [KILLS] [SEED] [LOSS]   50 kills by default; the seed of the moments is printed
set -eu
cd "$(dirname "$0")/.."
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
CGO_ENABLED=0 go build -o "$bin/vsetrain" ./cmd/vsetrain
go test ./cmd/vsetrain -count=1 -run 'TestKillAndResume$' -v -kills "${1:-50}" -kill-seed "${2:-0}" -program "$bin/vsetrain" \
    -kill-loss "${3:-name: lseh}"

#!/usr/bin/env bash
# The main job on data that needs no download: a synthetic world, semantic vectors of its captions, VSE++ trained with LSEH,
# and recalls on images and captions that training never saw. Run it as `make demo`.
#
#   scripts/demo.sh [PROGRAM]      PROGRAM is bin/vsetrain unless given
#
# It works in bin/demo. Data stay in data/demo there and are used again; every run gets a folder of its own, runs/demo,
# runs/demo-2, ...
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-bin/vsetrain}")
mkdir -p bin/demo
cd bin/demo
data=data/demo
run=runs/demo
for ((i = 2; ; i++)); do
  [ -e "$run" ] || break
  run=runs/demo-$i
done

step() {
  printf '\n$ vsetrain %s\n' "$*"
  "$program" "$@"
}

if [ -e $data/train_caps.txt ]; then
  printf '\n%s holds the data of an earlier demo\n' $data
else
  step data synth $data
fi
step precompute-svd --data $data
step train --config demo --run $run
step eval $run --json $run/test.json

recall=$(sed -n 's/.*"m_recall": *\([0-9]*\).*/\1/p' $run/test.json)
if [ "${recall:-0}" -lt 40 ]; then
  echo "M-Recall on the test split is ${recall:-missing}, expected at least 40: something is wrong" >&2
  exit 1
fi
printf 'took %d seconds; the run is in %s\n' $SECONDS bin/demo/$run

#!/usr/bin/env bash
# Everything that has to be seen on a machine with an NVIDIA GPU: the program is right there, and how fast it is. In
# three parts, each of at most nine minutes.
#
#   scripts/gpu-check.sh A B C [--out gpu-checked] [--budget 540] [--only STEP,...] [--networks NAME,...] [--again STEP,...]
#   scripts/gpu-check.sh --emulated A B C     tiny, on the emulated driver of the pack, no times
#
#   A   doctor --gpu, selftest, own products against the predicted bits, losses of 100 training steps beside those of the
#       processor, and the training step of every network in tf32 and bf16
#   B   golden cases of PyTorch, compute-sanitizer, ptxas, the same training steps in PyTorch, and kernel by kernel
#       beside what the model of the GPU predicts
#   C   evaluation of all pairs of a split of MS-COCO's size, torch.compile, ncu on the five longest kernels
#
# It needs bash, coreutils, awk and the program; no Go and no network. PYTHON names an interpreter with torch. Every step
# has a limit of its own and stops no other, except that nothing follows a doctor that fails. The folder of --out keeps
# what was done: the same command goes on from there, also after it was killed, does what failed again, and does no step
# twice that is done, except those of --again. A step that cannot run says why. Where it may, it turns persistence mode
# on while it runs: without it the driver starts the GPU anew for every command. report.md is written anew after every
# step. Exit status: 0 if no step failed.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
binary=$root/bin/vsetrain out=gpu-checked budget='' only='' again='' emulated='' driver=$root/bin/libcuda_emulated.so
networks=vsepp,vsrn,vseinf-bigru,vseinf-bert,saf,sgr,gsmn,scan,chan parts=''

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in
  A | B | C) parts+=$1; shift ;;
  --binary | --out | --budget | --only | --again | --networks | --driver)
    [ $# -ge 2 ] || usage
    printf -v "${1#--}" %s "$2"; shift 2 ;;
  --emulated) emulated=1; shift ;;
  *) usage ;;
  esac
done
[ -n "$parts" ] || usage
budget=${budget:-$((emulated ? 3600 : 540))} # the emulated driver takes its time
[[ $budget =~ ^[0-9]+$ ]] || usage
binary=$(command -v "$binary") && binary=$(realpath "$binary") ||
  { echo "gpu-check: no program at --binary; build it with make build" >&2; exit 2; }
mkdir -p "$out/logs" && out=$(realpath "$out") || exit 2
if [ -n "$emulated" ]; then
  [ -e "$driver" ] || { echo "gpu-check: no emulated driver at $driver; build it with make emulator" >&2; exit 2; }
  VSETRAIN_CUDA_DRIVER=$(realpath "$driver")
  export VSETRAIN_CUDA_DRIVER VSETRAIN_CUBLAS=$VSETRAIN_CUDA_DRIVER
fi
work=$(mktemp -d)
# Compiled kernels, for all commands here and for the next part: HOME may not be writable.
export CUDA_CACHE_PATH=${CUDA_CACHE_PATH:-$out/cache}
child='' persisting='' repeated=''
finish() {
  [ -z "$persisting" ] || timeout -k 5 20 nvidia-smi -pm 0 >/dev/null 2>&1
  rm -rf "$work"
}
stop() { # at once: timeout hands the signal on to what it runs, and ends that after five seconds
  [ -z "$child" ] || { kill "$child" && wait "$child"; } 2>/dev/null
  exit 130
}
trap finish EXIT
trap stop INT TERM
touch "$out/steps.tsv" "$out/parity.tsv" "$out/bench.tsv" "$out/profile.tsv"
. "$here/gpu-check-lib.sh"
. "$here/gpu-check-steps.sh"
find_machine
[ -n "$emulated" ] || find_cublas
precisions='tf32 bf16'
[ -z "$emulated" ] || precisions=tf32

part_A() {
  local network precision
  step selftest 150 selftest
  step bits 120 bits
  for network in ${networks//,/ }; do step "parity $network" 60 parity "$network"; done
  for precision in bf16 tf32; do
    for network in ${networks//,/ }; do step "parity $network $precision" 60 parity "$network" $precision; done
  done
  for precision in $precisions; do
    for network in ${networks//,/ }; do step "bench $network $precision" 60 bench_ours "$network" $precision; done
  done
}

part_B() {
  local network precision
  step golden 60 golden
  step memcheck 150 sanitizer memcheck
  step racecheck 150 sanitizer racecheck
  step ptxas 60 ptxas
  for precision in $precisions; do
    for network in ${networks//,/ }; do step "torch $network $precision" 60 torch "$network" $precision eager; done
  done
  for precision in $precisions; do
    for network in ${networks//,/ }; do step "profile $network $precision" 60 profile "$network" $precision; done
  done
}

part_C() {
  local network rank
  for network in saf sgr gsmn scan chan; do
    if [[ ,$networks, = *,$network,* ]]; then step "evaluation $network" 150 evaluation "$network"; fi
  done
  for network in vsepp vseinf-bigru vseinf-bert; do # what torch.compile takes to start is long
    if [[ ,$networks, = *,$network,* ]]; then step "compile $network bf16" 120 torch "$network" bf16 compile; fi
  done
  for rank in 1 2 3 4 5; do step "ncu $rank" 60 ncu $rank; done
}

for part in A B C; do
  [[ $parts = *$part* ]] || continue
  began=$SECONDS
  step doctor 90 doctor || break
  part_$part
done
report && cat "$out/report.md"
failed=$(awk -F'\t' '$3 == "failed"' "$out/steps.tsv" | wc -l)
waiting=$(awk -F'\t' '$3 == "waiting"' "$out/steps.tsv" | wc -l)
echo "gpu-check: $failed steps failed, $waiting wait for another call; report.md and report.json are in $out" >&2
[ "$failed" = 0 ]

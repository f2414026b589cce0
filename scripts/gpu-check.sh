#!/usr/bin/env bash
# Checks vsetrain on a machine with an NVIDIA GPU: is it right there, and how fast is it?
#
#   scripts/gpu-check.sh [--budget 350] [right] [speed]
#   scripts/gpu-check.sh --emulated         all of it tiny, on the emulated driver of the pack, no times
#
#   right   doctor --gpu, selftest, 20 steps of every network in three precisions beside the processor, golden cases of
#           PyTorch, the demo trained on both, compute-sanitizer
#   speed   steps of every network in three precisions, the same steps in PyTorch, kernels one by one, Nsight Compute on
#           the three longest of each, streamed and unrecorded steps, torch.compile, evaluation of a split of MS-COCO's size
#
# Without a part it does both, and begins with what one wants to know most. It needs bash, coreutils, awk and the program;
# no Go and no network. It changes no setting of the card, and nothing else may run on it meanwhile.
#
#   --budget SECONDS    for everything (350; BUDGET); steps for which no time is left are named in the table
#   --archive FILE      everything so far, written anew after every step (gpu-check.tar.gz, in the folder OUT if that is set)
#   --networks NAME,... those of vsepp, vseinf-bigru, vseinf-bert, sgr, saf, gsmn, vsrn, scan, chan
#   --only STEP,...     steps, or kinds of them: doctor,bench,'torch sgr'
#   --data DIR          a prepared folder of Flickr8K: trains VSE-infinity on it too
#   --binary, --driver  the program and the emulated driver, if they are not those of the pack
#
# PYTHON names an interpreter with torch. The table comes last, in at most 10,000 characters. Exit status: 0 if no step
# failed; 1 if one did, or if the first one, doctor --gpu, did not end in time; 2 for wrong arguments.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
binary=$root/bin/vsetrain driver=$root/bin/libcuda_emulated.so emulated=${EMULATED:-} budget=${BUDGET:-} only='' data=''
archive=${OUT:-.}/gpu-check.tar.gz networks=vsepp,vseinf-bigru,vseinf-bert,sgr,saf,gsmn,vsrn,scan,chan parts=''

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in
  right | speed) parts+=" $1"; shift ;;
  --budget | --archive | --networks | --only | --data | --binary | --driver)
    [ $# -ge 2 ] || usage
    printf -v "${1#--}" %s "$2"; shift 2 ;;
  --emulated) emulated=1; shift ;;
  *) usage ;;
  esac
done
parts=${parts:-right speed}
budget=${budget:-$((emulated ? 3600 : 350))} # the emulated driver takes its time
[[ $budget =~ ^[1-9][0-9]*$ ]] || usage
networks=${networks//,/ }
binary=$(command -v "$binary") && binary=$(realpath "$binary") ||
  { echo "gpu-check: no program at --binary; build it with make build" >&2; exit 2; }
archive=$(realpath "$archive") && : >"$archive" || { echo "gpu-check: --archive $archive cannot be written" >&2; exit 2; }
if [ -n "$emulated" ]; then
  [ -e "$driver" ] || { echo "gpu-check: no emulated driver at $driver; build it with make emulator" >&2; exit 2; }
  VSETRAIN_CUDA_DRIVER=$(realpath "$driver")
  export VSETRAIN_CUDA_DRIVER VSETRAIN_CUBLAS=$VSETRAIN_CUDA_DRIVER
fi
work=$(mktemp -d) && out=$work/out && mkdir -p "$out/logs" && : >"$out/steps.tsv" || exit 2
export root binary work out emulated networks
. "$here/gpu-check-lib.sh"
. "$here/gpu-check-steps.sh"
trap finish EXIT
trap 'exit 143' INT TERM
find_machine
is() { [[ " $parts " = *" $1 "* ]]; }

if ! step doctor 90 doctor; then
  step torch 60 opens_torch # is it the machine, or vsetrain?
  exit 1
fi
is right && listed networks && beside references 240 references
is right && listed demo && beside demo 240 demo_on_processor
if is right; then
  step selftest 180 selftest
  step networks 120 networks
  step golden 60 golden
  for precision in bf16 fp32; do step "demo $precision" 60 demo $precision; done
fi
quiet
if is speed; then
  for n in $networks; do step "bench $n bf16" 30 bench "$n" bf16; done
  for n in $networks; do step "profile $n bf16" 30 profile "$n" bf16; done
  for n in $networks; do step "bench $n tf32" 30 bench "$n" tf32; done
  [[ " $networks " != *" sgr "* ]] || step "profile sgr tf32" 30 profile sgr tf32
  for n in $networks; do step "torch $n bf16" 60 torch "$n" bf16 graph; done
fi
if is right; then step memcheck 120 sanitizer memcheck; fi
if is speed; then
  for n in $networks; do step "bench $n fp32" 30 bench "$n" fp32; done
  for n in $networks; do step "ncu $n bf16" 45 ncu "$n" bf16; done
  [[ " $networks " != *" sgr "* ]] || step "ncu sgr tf32" 45 ncu sgr tf32
  for n in vsepp vseinf-bigru; do
    step "streamed $n" 30 variant "$n" --stream
    step "unrecorded $n" 30 variant "$n" --set device.capture=never
  done
  for loss in lseh benchmark; do step "flickr8k $loss" 60 flickr8k $loss; done
  for n in $networks; do step "compile $n bf16" 120 torch "$n" bf16 compile; done
  for n in $networks; do
    [[ $n = @(vse*|vsrn) ]] || step "evaluation $n" 120 evaluation "$n" # the others look at pairs
  done
fi
if is right; then step racecheck 120 sanitizer racecheck; fi
! grep -q $'\tfailed\t' "$out/steps.tsv"

#!/usr/bin/env bash
# Everything that has to be seen on a machine with an NVIDIA GPU, in under ten minutes: the program is right there, and how fast it is.
#
#   scripts/gpu-check.sh [--binary bin/vsetrain] [--out DIR] [--budget 540] [--only PART,...] [--networks NAME,...]
#   scripts/gpu-check.sh --emulated [--driver bin/libcuda_emulated.so] ...     tiny, without a GPU, no times
#
# It needs bash, coreutils, awk and the program (of glibc it needs the loader alone); no Go and no network. Parts, each with a time limit of its own, none of which stops
# the others: doctor, selftest, bench (the training step of every network), parity (losses of 100 training steps beside those of the processor), memcheck and racecheck
# (compute-sanitizer), ptxas, torch (the steps of bench in scripts/torch_peer.py; PYTHON names an interpreter with torch), evaluation (all
# pairs of 5,000 images and 25,000 captions, as many as MS-COCO's, with each network that scores pairs). What is not there is skipped, with the reason. DIR gets report.md, report.json and the output of every part. Exit status: 0 if no part failed.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
binary=$root/bin/vsetrain out='' budget='' only='' emulated='' driver=$root/bin/libcuda_emulated.so
networks=vsepp,vsrn,vseinf-bigru,vseinf-bert,saf,sgr,gsmn

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case $1 in
  --binary | --out | --budget | --only | --networks | --driver) [ $# -ge 2 ] || usage; printf -v "${1#--}" %s "$2"; shift 2 ;;
  --emulated) emulated=1; shift ;;
  *) usage ;;
  esac
done
budget=${budget:-$((emulated ? 3600 : 540))} # the emulated driver takes its time
[[ $budget =~ ^[0-9]+$ ]] || usage
binary=$(command -v "$binary") && binary=$(realpath "$binary") || { echo "gpu-check: no program at --binary; build it with make build" >&2; exit 2; }
out=${out:-gpu-check-$(date +%Y%m%d-%H%M%S)}
mkdir -p "$out" && out=$(realpath "$out") || exit 2
if [ -n "$emulated" ]; then
  [ -e "$driver" ] || { echo "gpu-check: no emulated driver at $driver; build it with make emulator" >&2; exit 2; }
  VSETRAIN_CUDA_DRIVER=$(realpath "$driver")
  export VSETRAIN_CUDA_DRIVER VSETRAIN_CUBLAS=$VSETRAIN_CUDA_DRIVER
fi
work=$(mktemp -d)
export CUDA_CACHE_PATH=${CUDA_CACHE_PATH:-$work/cache} # of compiled kernels, for all commands here: HOME may not be writable
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
: >"$out/parts.tsv" >"$out/parity.tsv" >"$out/bench.tsv"
. "$here/gpu-check-lib.sh"
[ -n "$emulated" ] || find_cublas

# ---------------------------------------------------------------------------------------------------- the program is right
doctor() {
  run doctor 60 "$binary" doctor --quick --dir "$out"
  remark "$(sed -n 's/^gpu  *//p' "$log" | cut -c1-120)"
  command -v nvidia-smi >/dev/null && nvidia-smi >"$out/nvidia-smi.log" 2>&1
}

selftest() {
  local arguments=()
  [ -n "$emulated" ] && arguments=(--variant fp32,own-fp32 --family Memory,L2Norm,SemanticMargins,Cells)
  run selftest $((emulated ? 600 : 120)) "$binary" selftest "${arguments[@]}"
  remark "$(tail -n 1 "$log")"
}

# sanitizer TOOL: own products, so that what is looked at is ours; the emulated driver does this itself. A tool that reports no error has
# passed only if the program ran to its end under it and it attached to the program.
sanitizer() {
  [ -z "$emulated" ] || { skip "$1" "the emulated driver looks for the same mistakes in every part"; return; }
  local tool seen
  tool=$(find_tool compute-sanitizer) || { skip "$1" "compute-sanitizer not found (package cuda-sanitizer-12-8)"; return; }
  run "$1" 150 "$tool" --tool "$1" --error-exitcode 9 "$binary" selftest --in-process --variant own-fp32
  seen=$(grep -aoE '[1-9][0-9]* tests of kernel families passed' "$log" | tail -n 1)
  if [ "$code" = 0 ] && grep -aqE 'before first instrumented|[Nn]o attachable process|[Uu]nable to (attach|launch)' "$log"; then
    record "$1" failed $((SECONDS - started)) "the sanitizer did not attach: $(grep -aE 'before first instrumented|attachable|[Uu]nable to' "$log" | tail -n 1 | sed 's/^=* *//')"
  elif [ "$code" = 0 ] && [ -z "$seen" ]; then
    record "$1" failed $((SECONDS - started)) "the sanitizer reports no error, but the program did not run to its end under it"
  else
    remark "$(grep -aE 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | tail -n 1 | sed 's/^=* *//'); $seen"
  fi
}

ptxas() {
  local tool arch files=0 failed=0 f
  "$binary" doctor --write-ptx "$out/ptx" >"$out/ptxas.log" 2>&1 && [ -e "$out/ptx/gemm.ptx" ] || { record ptxas failed 0 "the program did not write its PTX"; return; }
  tool=$(find_tool ptxas) || { skip ptxas "ptxas not found (package cuda-nvcc-12-8, or pip's nvidia-cuda-nvcc-cu12 or triton); the PTX is in ptx/"; return; }
  arch=sm_$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d '. ')
  [ "$arch" = sm_ ] && arch=sm_90
  begin ptxas
  for f in "$out"/ptx/*.ptx; do
    files=$((files + 1))
    timeout 30 "$tool" -v -arch="$arch" -o /dev/null "$f" >>"$log" 2>&1 || failed=$((failed + 1))
  done
  local most spills
  most=$(grep -o 'Used [0-9]* registers' "$log" | awk '{ if ($2 > m) m = $2 } END { print m + 0 }')
  spills=$(grep -o '[0-9]* bytes spill stores' "$log" | awk '$1 > 0 { n++ } END { print n + 0 }')
  record ptxas "$([ $failed = 0 ] && echo ok || echo failed)" $((SECONDS - started)) "$arch: $files files, $failed refused; at most $most registers, $spills kernels spill"
}

# parity trains each network on the synthetic world on both devices, from the same seed, and compares the losses of all steps.
parity() {
  local steps=100 batch=32 sizes=(--train 200 --regions 12 --dim 128) network kind ok=ok
  local wide=128 bert=$root/testdata/torch/vseinf-bert/bert
  [ -n "$emulated" ] && steps=6 batch=8 wide=16 sizes=(--train 12 --regions 3 --dim 16)
  begin parity
  { "$binary" data synth "$work/world" "${sizes[@]}" --dev 10 --test 10 && "$binary" precompute-svd --data "$work/world" --k 8; } >"$log" 2>&1 || {
    record parity failed $((SECONDS - started)) "no synthetic world, see parity.log"
    return
  }
  for network in ${networks//,/ }; do
    if [ "$network" = vseinf-bert ] && [ ! -e "$bert" ]; then
      printf '%s\tskipped\t\t\t\t\tno small BERT: testdata/torch is not here\n' "$network" >>"$out/parity.tsv"
      continue
    fi
    parity_config "$network" $steps $batch $wide "$bert" >"$work/parity.yaml"
    for kind in cpu cuda; do
      limited $((emulated ? 300 : 60)) "$binary" train --config "$work/parity.yaml" --set device.kind=$kind --run "$work/parity-$network-$kind" >"$work/$kind.log" 2>&1
      code=$?
      { echo "--- $network on $kind: exit $code"; cat "$work/$kind.log"; } >>"$log"
      [ $code = 0 ] || break
    done
    compare_losses "$network" $code "$kind" $steps || ok=failed
  done
  record parity "$ok" $((SECONDS - started)) "$(awk -F'\t' '{ n[$2]++ } END { for (s in n) printf "%d %s, ", n[s], s }' "$out/parity.tsv" | sed 's/, $//')"
}

# ---------------------------------------------------------------------------------------------------------- how fast it is
# bench times a step of every network at the sizes of Flickr30K, batch 128 (GSMN 64).
bench() {
  local network precision ok=ok
  begin bench
  for precision in tf32 bf16; do
    for network in ${networks//,/ }; do
      bench_ours "$network" $precision || ok=failed
    done
    [ -n "$emulated" ] && break
  done
  record bench "$ok" $((SECONDS - started)) "features stay on the GPU, steps are recorded"
}

# torch times the same steps in PyTorch.
torch() {
  local network precision found
  begin torch
  found=$(find_torch)
  case $found in none:*) skip torch "${found#none: }"; return ;; esac
  for precision in tf32 bf16; do
    for network in ${networks//,/ }; do
      bench_torch "$network" $precision eager 60
    done
  done
  for network in vsepp vseinf-bigru vseinf-bert; do # what torch.compile takes to start is long: last, while there is time
    [[ ,$networks, = *,$network,* ]] && bench_torch $network bf16 compile 100
  done
  record torch ok $((SECONDS - started)) "$found"
}

# evaluation scores all pairs of a split of MS-COCO's size with networks of full size after one step; the seconds are those of the whole command. Features
# are short: only their encoding depends on them.
evaluation() {
  local network ok=ok wide=0 images=5000 came before times=''
  [ -n "$emulated" ] && wide=16 images=5
  [[ ,$networks, =~ ,(saf|sgr|gsmn), ]] || { skip evaluation "no network of --networks scores pairs"; return; }
  begin evaluation
  "$binary" data synth "$work/coco" --train 20 --dev 4 --test $images --regions 36 --dim 64 >"$log" 2>&1 || {
    record evaluation failed $((SECONDS - started)) "no synthetic split, see evaluation.log"
    return
  }
  for network in saf sgr gsmn; do
    [[ ,$networks, = *,$network,* ]] || continue
    printf '{"version": 1, "data": {"dir": "%s"}, "model": {%s}, "loss": {"name": "lmh"}, "train": {"max_steps": 1, "batch": 4}, "run": {"tensorboard": false}}\n' \
      "$work/coco" "$(model $network $wide)" >"$work/evaluation.yaml"
    limited $((emulated ? 300 : 60)) "$binary" train --config "$work/evaluation.yaml" --set device.kind=cuda --run "$work/coco-$network" >>"$log" 2>&1
    came=$? before=$(date +%s%N)
    [ $came = 0 ] && { limited $((emulated ? 300 : 120)) "$binary" eval --checkpoint "$work/coco-$network" --device cuda --precision tf32 >>"$log" 2>&1; came=$?; }
    case $came in
    0) times+="$network $(awk -v n=$(($(date +%s%N) - before)) 'BEGIN { printf "%.1f", n / 1e9 }') s, " ;;
    125) times+="$network: nothing was left of the budget, " ;;
    *) times+="$network failed with exit $came, " ok=failed ;;
    esac
  done
  [ -n "$emulated" ] && times=$(sed -E 's/ [0-9.]+ s,/ ran,/g' <<<"$times")
  record evaluation $ok $((SECONDS - started)) "$images images, $((5 * images)) captions, tf32: ${times%, }"
}

wanted() { [ -z "$only" ] || [[ ,$only, = *,$1,* ]]; }
# What only this machine can say comes first, while there is time.
wanted doctor && doctor
wanted selftest && selftest
wanted bench && bench
# These take no times: together, so that none waits for another, unless the GPU takes one process only.
together=1
[[ $(nvidia-smi --query-gpu=compute_mode --format=csv,noheader -i "$gpu" 2>/dev/null) = Exclusive* ]] && together=''
for part in parity 'sanitizer memcheck' 'sanitizer racecheck' ptxas; do
  wanted "${part#sanitizer }" || continue
  if [ -n "$together" ]; then $part & else $part; fi
done
wait
wanted torch && torch
wanted evaluation && evaluation
report

# The steps of gpu-check.sh. Each returns 0 (ok), 1 (failed) or 2 (skipped) and says in remark what it saw.

# ------------------------------------------------------------------------------------------- the program is right, part A
doctor() {
  try_into "$out/logs/machine.log" "$binary" doctor --quick --dir "$out"
  try_into "$out/doctor.txt" "$binary" doctor --gpu || return 1
  remark=$(sed -n 's/^gpu  *//p' "$out/doctor.txt" | cut -c1-120)
}

selftest() {
  local arguments=()
  [ -n "$emulated" ] && arguments=(--variant fp32,own-fp32 --family Memory,L2Norm,SemanticMargins,Cells)
  try_into "$work/selftest" "$binary" selftest "${arguments[@]}" || return 1
  remark=$(tail -n 1 "$work/selftest")
}

# bits compares trainings on own products with the bits that the arithmetic of IEEE 754 predicts.
bits() {
  [ -z "$emulated" ] || { remark="the emulated driver of the sources rounds a product and its sum twice"; return 2; }
  try_into "$work/bits" "$binary" selftest --bits || return 1
  remark=$(tail -n 1 "$work/bits")
}

# ------------------------------------------------------------------------------------------------- how fast it is, part A
# bench_arguments NETWORK PRECISION fills the array arguments.
bench_arguments() {
  arguments=(--config "$(preset "$1")" --set device.kind=cuda --set "device.precision=$2")
  if [ -n "$emulated" ]; then
    settings "$(small "$1" 16)"
    arguments+=(--set train.batch=4 --steps 1 --warmup 1 --regions 3 --feature-dim 8 --vocab-size 60)
  fi
}

# bench_row WHO NETWORK PRECISION MS CAPTIONS MEMORY PRODUCTS
bench_row() { row bench.tsv 3 "$@"; }

# bench_ours times a step of a network at the sizes of Flickr30K, as training does it.
bench_ours() {
  local arguments file=$work/ours.json
  bench_arguments "$1" "$2"
  try_into "$file" "$binary" bench "${arguments[@]}" --json || return 1
  if [ "$(number "$file" replayed)" = 0 ]; then
    remark="no step ran as a recorded CUDA graph: $(grep -aoE '"call_by_call":"[^"]*' "$file" | cut -c17-160)"
    return 1
  fi
  [ -z "$emulated" ] || { remark='ran; emulated, no times'; return 0; }
  local products=own
  if grep -aq '"cublas":' "$file"; then products=cuBLAS; fi
  bench_row vsetrain "$1" "$2" "$(number "$file" median)" "$(number "$file" captions_per_s)" \
    "$(number "$file" gpu_used_mb)" $products
  remark="$(number "$file" median) ms"
  [ $products = cuBLAS ] || remark+=", own products: no cuBLAS"
}

# profile times the kernels of a step one by one, beside what the model of the GPU predicts.
profile() {
  local arguments file=$out/profile-$1-$2.txt model=''
  bench_arguments "$1" "$2"
  [ -n "$emulated" ] && arguments+=(--model h200)
  if ! try_into "$file" "$binary" bench "${arguments[@]}" --profile; then
    grep -aq 'there is no model of' "$log" || return 1
    model='; no model of this GPU: predicted for an H200'
    try_into "$file" "$binary" bench "${arguments[@]}" --profile --model h200 || return 1
  fi
  # kernel, calls, MB, GFLOP, predicted, measured: the name of a kernel may have spaces
  awk 'NF >= 6 && $1 == "sum" { print $(NF-4), $(NF-3), $(NF-2), $(NF-1), $NF }' "$file" >"$work/sum"
  local calls mb gflop predicted measured
  read -r calls mb gflop predicted measured <"$work/sum" || { remark="no sum of kernels, see $file"; return 1; }
  [ -z "$emulated" ] || measured='' # means nothing
  row profile.tsv 2 "$1" "$2" "$calls" "$mb" "$gflop" "$predicted" "$measured"
  remark="$calls launches, predicted $predicted ms${measured:+, one by one $measured ms}$model"
}

# ------------------------------------------------------------------------------------------- the program is right, part B
# golden compares with what PyTorch computed: outputs, losses and every gradient of all networks, by the tests of package
# models as one program.
golden() {
  local tests; tests=$(dirname "$(command -v "$binary")")/models.test
  [ -x "$tests" ] || { remark="models.test is not beside the program: make gpu-pack builds it"; return 2; }
  local driver=${VSETRAIN_CUDA_DRIVER:-}
  [ -n "$driver" ] || driver=$("$binary" doctor --quick --json 2>/dev/null |
    sed -nE '/"name": "CUDA driver"/{n;s/.*"path": "(.*)",/\1/p;q}')
  [ -n "$driver" ] || { remark="no driver"; return 1; }
  try_into "$work/golden" env VSETRAIN_EMULATOR="$driver" VSETRAIN_GOLDEN="$root/testdata/golden" \
    "$tests" -test.v -test.run '^TestGolden' || return 1
  local cases
  cases=$(grep -acE -- '--- PASS: .*/.*(cuda|OnEmulatedGPU/)' "$work/golden")
  remark="$cases cases of PyTorch on $driver, own products"
  [ "$cases" -gt 0 ] || { remark="no case ran on the GPU"; return 1; }
}

# world makes the synthetic data set of the trainings.
world() {
  local sizes=(--train 200 --regions 12 --dim 128)
  [ ! -e "$out/world" ] || return 0
  [ -n "$emulated" ] && sizes=(--train 12 --regions 3 --dim 16)
  try "$binary" data synth "$work/world" "${sizes[@]}" --dev 10 --test 10 && mv "$work/world" "$out/world"
}

# parity NETWORK [PRECISION] trains a network on the synthetic world twice, from the same seed, and compares the losses of
# all steps: in fp32 on the processor and on the GPU, in tf32 or bf16 on the GPU with the base kernels and with those on
# tensor cores, 20 steps. Differences are relative to the first: 1e-4 in the first ten steps of fp32, 1e-2 where operands
# are rounded; rounding grows from step to step (a negative that is hardest by a hair is another one), so that 2e-2 are
# allowed in all.
parity() {
  local precision=${2:-fp32} steps=100 batch=32 wide=128 near=1e-4 sides='cpu cuda' side arguments=()
  local bert=$root/testdata/torch/vseinf-bert/bert
  [ $precision = fp32 ] || { steps=20 near=1e-2 sides='base cuda'; }
  [ -n "$emulated" ] && steps=6 batch=8 wide=$([ $precision = fp32 ] && echo 16 || echo 64)
  if [ "$1" = vseinf-bert ] && [ ! -e "$bert" ]; then remark='no small BERT: testdata/torch is not here'; return 2; fi
  world || return 1
  settings "$(small "$1" $wide)"
  [ "$1" = vseinf-bert ] && arguments+=(--set "model.bert.dir=$bert")
  arguments+=(--set "data.dir=$out/world" --set loss.name=lmh --set optim.lr=5e-4 --set train.epochs=50
    --set "train.max_steps=$steps" --set "train.batch=$batch" --set train.val_step=0 --set train.log_step=1
    --set train.drop_last=true --set run.tensorboard=false --set "device.precision=$precision")
  for side in $sides; do
    if ! try env VSETRAIN_KERNELS="$([ $side = base ] && echo base)" "$binary" train --config "$(preset "$1")" "${arguments[@]}" \
      --set "device.kind=${side/base/cuda}" --run "$work/$1-$precision-$side"; then
      remark="$side: $remark"
      return 1
    fi
  done
  losses() { sed -nE '/"kind":"train"/s/.*"loss":([-0-9.eE+]+).*/\1/p' "$work/$1/metrics.jsonl"; }
  paste <(losses "$1-$precision-${sides% *}") <(losses "$1-$precision-cuda") | awk -v steps=$steps -v near=$near '
    { d = $2 - $1; if (d < 0) d = -d; d /= ($1 > 1e-6 ? $1 : 1e-6); if (!(d == d)) bad = 1
      if (NR <= 10 && d > early) early = d; if (d > all) all = d; if (NR == 1) first = $1; one = $1; other = $2 }
    END {
      ok = NR == steps && NF == 2 && !bad && early <= near && all <= 2e-2
      printf "%.5g %.5g %.5g %.2g %.2g %d\n", first, one, other, early, all, NR
      exit !ok
    }' >"$work/compared"
  local ok=$? first one other early all found
  read -r first one other early all found <"$work/compared"
  row parity.tsv 1 "$1${2:+ $2}" "$first" "$one" "$other" "$early" "$all"
  remark="$found steps; difference $early in ten steps, allowed $near, $all in all, allowed 2e-2"
  return $ok
}

# sanitizer TOOL looks at own products, so that what is looked at is ours; the emulated driver does this itself. The tool
# must first find a mistake that is planted in a kernel: one that sees no kernel finds none.
sanitizer() {
  [ -z "$emulated" ] || { remark="the emulated driver looks for the same mistakes in every step"; return 2; }
  local tool seen kernels plant=write
  tool=$(find_tool compute-sanitizer) || { remark="compute-sanitizer not found (package cuda-sanitizer-12-8)"; return 2; }
  [ "$1" = racecheck ] && plant=race
  try "$tool" --tool "$1" --error-exitcode 9 "$binary" selftest --plant $plant
  if ! grep -aqE 'SUMMARY: *[1-9][0-9]* (error|hazard)' "$log"; then
    remark="the tool sees no kernel: it does not find the mistake that is planted ($remark)"
    return 1
  fi
  : >"$log.clean"
  log=$log.clean
  try "$tool" --tool "$1" --error-exitcode 9 "$binary" selftest --in-process --variant own-fp32,own-bf16-copies || return 1
  seen=$(grep -aoE '[1-9][0-9]* tests of kernel families passed.*' "$log" | tail -n 1)
  kernels=$(grep -aoE '[1-9][0-9]* of [0-9]+ kernels for this GPU were launched' "$log" | tail -n 1)
  if [ -z "$seen" ] || [ -z "$kernels" ]; then
    remark="the sanitizer reports no error, but the program did not run to its end under it"
    return 1
  fi
  remark="$(grep -aE 'ERROR SUMMARY|RACECHECK SUMMARY' "$log" | tail -n 1 | sed 's/^=* *//'); $kernels; finds a planted mistake"
}

ptxas() {
  local tool arch files=0 failed=0 f
  "$binary" doctor --write-ptx "$out/ptx" >>"$log" 2>&1 && [ -e "$out/ptx/gemm.ptx" ] ||
    { remark="the program did not write its PTX"; return 1; }
  tool=$(find_tool ptxas) ||
    { remark="ptxas not found (package cuda-nvcc-12-8, or pip's nvidia-cuda-nvcc-cu12 or triton)"; return 2; }
  arch=$(sed -nE 's/^gpu .* compute capability ([0-9]+)\.([0-9]+),.*/sm_\1\2/p' "$out/doctor.txt" 2>/dev/null)
  arch=${arch:-sm_90}
  for f in "$out"/ptx/*.ptx; do
    files=$((files + 1))
    try "$tool" -v -arch="$arch" -o /dev/null "$f" || failed=$((failed + 1))
  done
  local most spills
  most=$(grep -o 'Used [0-9]* registers' "$log" | awk '{ if ($2 > m) m = $2 } END { print m + 0 }')
  spills=$(grep -o '[0-9]* bytes spill stores' "$log" | awk '$1 > 0 { n++ } END { print n + 0 }')
  remark="$arch: $files files, $failed refused; at most $most registers, $spills kernels spill"
  [ $failed = 0 ]
}

# torch NETWORK PRECISION eager|compile times the same step in PyTorch. A peer that does not run is no failure of ours.
torch() {
  local file=$work/torch.json arguments=(--steps 6 --warmup 2) found
  find_torch
  found=$(cat "$work/torch")
  case $found in none:*) remark=${found#none: }; return 2 ;; esac
  [ "$1" = chan ] && { remark='scripts/torch_peer.py has no CHAN'; return 2; }
  [ "$1" = scan ] || arguments+=(--loss lseh)
  [ "$3" = compile ] && arguments+=(--compile)
  try_into "$file" "${PYTHON:-python3}" "$here/torch_peer.py" --device cuda --network "$1" --dtype "$2" \
    --gemm-seconds 0.1 "${arguments[@]}" || { [ -n "$cut" ] && return 1; return 2; }
  bench_row "torch-$3" "$1" "$2" "$(number "$file" median)" "$(number "$file" captions_per_s)" \
    "$(number "$file" peak_memory_mb)"
  remark="$(number "$file" median) ms, torch $found"
}

# ------------------------------------------------------------------------------------------------- how fast it is, part C
# evaluation scores all pairs of a split of MS-COCO's size with a network of full size after one step; the seconds are
# those of the whole command. Features are short: only their encoding depends on them.
evaluation() {
  local images=5000 before arguments=()
  [ -n "$emulated" ] && images=5 && settings "$(small "$1" 16)"
  if [ ! -e "$out/coco" ]; then
    try "$binary" data synth "$work/coco" --train 20 --dev 4 --test $images --regions 36 --dim 64 &&
      mv "$work/coco" "$out/coco" || return 1
  fi
  arguments+=(--set "data.dir=$out/coco" --set loss.name=lmh --set train.max_steps=1 --set train.batch=4
    --set train.val_step=0 --set run.tensorboard=false --set device.kind=cuda)
  try "$binary" train --config "$(preset "$1")" "${arguments[@]}" --run "$work/coco-$1" || return 1
  before=$(date +%s%N)
  try "$binary" eval --checkpoint "$work/coco-$1" --device cuda --precision tf32 || return 1
  remark="$images images, $((5 * images)) captions, tf32"
  [ -n "$emulated" ] || remark+=": $(awk -v n=$(($(date +%s%N) - before)) 'BEGIN { printf "%.1f", n / 1e9 }') s"
}

# ncu RANK looks at one of the five kernels that the profiles of part B measured to take longest, of each kernel the
# network in which it takes longest.
ncu() {
  local tool network precision kernel ms arguments
  [ -z "$emulated" ] || { remark="there are no counters on the emulated driver"; return 2; }
  tool=$(find_tool ncu) || { remark="ncu not found (package nsight-compute)"; return 2; }
  for f in "$out"/profile-*.txt; do
    [ -e "$f" ] || continue
    f=${f##*/profile-}
    awk -v of="${f%.txt}" 'NF == 6 && $1 != "sum" && $1 != "kernel" && $2 > 0 { print $6 / $2, $6, $1, of }' \
      "$out/profile-$f"
  done | sort -k2,2 -rn | awk '!seen[$3]++' | sed -n "$1p" >"$work/worst"
  read -r _ ms kernel network <"$work/worst" || { remark="no profile of part B to choose from"; return 2; }
  precision=${network##*-} network=${network%-*}
  bench_arguments "$network" "$precision"
  try_into "$out/ncu-$1.txt" "$tool" --clock-control none --set full --kernel-name "$kernel" --launch-skip 2 \
    --launch-count 1 "$binary" bench "${arguments[@]}" --steps 1 --warmup 1 --set device.capture=never || return 1
  grep -aq 'Duration' "$out/ncu-$1.txt" || { remark="ncu saw no launch of $kernel, see ncu-$1.txt"; return 1; }
  remark="$kernel of $network in $precision, $ms ms a step: $(sed -nE \
    's/^ *(Duration|Memory Throughput|DRAM Throughput|Compute \(SM\) Throughput|Achieved Occupancy) +(\S+) +(\S+)$/\1 \3 \2/p' \
    "$out/ncu-$1.txt" | head -n 5 | paste -sd, | sed 's/,/, /g')"
}

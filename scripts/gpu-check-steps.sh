# The steps of gpu-check.sh and its table. Each returns 0 (ok), 1 (failed) or 2 (skipped) and says in remark what it saw.

# ------------------------------------------------------------------------------------------------------- is it right?
doctor() {
  if ! try_into "$out/doctor.txt" "$binary" doctor --gpu; then
    local why=$remark cut=$result
    limit=10 && try "$binary" doctor --quick # what it found and where, for the log
    remark=$why result=$cut
    return 1
  fi
  remark=$(sed -n 's/^gpu  *//p' "$out/doctor.txt" | cut -c1-120)
}

# opens_torch says whether PyTorch opens a GPU that vsetrain does not.
opens_torch() {
  try "${PYTHON:-python3}" -c 'import torch; print(torch.__version__, torch.ones(9, device="cuda").sum().item())' || return 2
  remark="PyTorch opens the GPU: $(cat "$work/output")"
}

selftest() {
  local arguments=()
  [ -n "$emulated" ] && arguments=(--variant fp32,own-fp32 --family Memory,L2Norm,SemanticMargins,Cells)
  if ! try "$binary" selftest "${arguments[@]}"; then
    remark+=$(awk '/^[a-z0-9-]+: /{ variant = $1 } /FAILED/{ printf "; %s %s FAILED", variant, $1 }' "$log" | cut -c1-90)
    return 1
  fi
  remark=$(tail -n 1 "$work/output")
}

# golden compares with what PyTorch computed: outputs, losses and every gradient of all networks, by the tests of package
# models as one program.
golden() {
  local tests cases found=${VSETRAIN_CUDA_DRIVER:-}
  tests=$(dirname "$binary")/models.test
  [ -x "$tests" ] || { remark="models.test is not beside the program: make gpu-pack builds it"; return 2; }
  [ -n "$found" ] || found=$("$binary" doctor --quick --json | sed -nE '/"name": "CUDA driver"/{n;s/.*"path": "(.*)",/\1/p;q}')
  try env VSETRAIN_EMULATOR="$found" VSETRAIN_GOLDEN="$root/testdata/golden" \
    "$tests" -test.v -test.run '^TestGolden' || return 1
  cases=$(grep -acE -- '--- PASS: .*/.*(cuda|OnEmulatedGPU/)' "$work/output")
  remark="$cases cases of PyTorch, own products"
  [ "$cases" -gt 0 ] || { remark="no case ran on the GPU"; return 1; }
}

# training NETWORK PRECISION KIND LIMIT starts 20 steps of a small network on the synthetic world, beside the script.
training() {
  local arguments=() steps=20 batch=32 width=128
  [ -n "$emulated" ] && steps=4 batch=8 width=16
  settings "$(small "$1" $width)"
  [ "$1" = vseinf-bert ] && arguments+=(--set "model.bert.dir=$root/testdata/torch/vseinf-bert/bert")
  timeout -k 3 "$4" "$binary" train --config "$(preset "$1")" "${arguments[@]}" --set "data.dir=$work/world" \
    --set loss.name=lmh --set optim.lr=5e-4 --set train.epochs=50 --set "train.max_steps=$steps" --set "train.batch=$batch" \
    --set train.val_step=0 --set train.log_step=1 --set train.drop_last=true --set run.tensorboard=false \
    --set "device.precision=$2" --set "device.kind=$3" --run "$work/runs/$1-$2-$3" >"$out/logs/$1-$2-$3.txt" 2>&1 &
}

# references trains all networks on the processor, in fp32 and in fp64, three at a time.
references() {
  local sizes='--train 200 --regions 12 --dim 128' n p
  [ -n "$emulated" ] && sizes='--train 12 --regions 3 --dim 16'
  "$binary" data synth "$work/world" $sizes --dev 10 --test 10
  for n in $networks; do for p in fp32 fp64; do
    [ "$(jobs -rp | wc -l)" -lt 3 ] || wait -n
    training "$n" $p cpu 200
  done; done
  wait
  touch "$work/references"
}

# until_there FILE waits within the limit of the step for what a function beside the steps makes.
until_there() {
  local end=$((SECONDS + limit))
  until [ -e "$1" ]; do
    [ $SECONDS -lt $end ] && [ "$(left)" -gt 8 ] && [ -n "$(jobs -rp)" ] || { remark="${1##*/} did not end on the processor"; return 1; }
    sleep 0.2
  done
}

# losses RUN prints those of its steps, a line each.
losses() { sed -nE '/"kind":"train"/s/.*"loss":([-0-9.eE+]+).*/\1/p' "$work/runs/$1/metrics.jsonl" 2>/dev/null; }

# compare NETWORK PRECISION prints the largest relative difference of the losses on the GPU from those in fp64 on the
# processor, and what is allowed at that step: 100 times as much as fp32 differs from fp64 on the processor up to five
# steps later, at least 3e-6 and at most 0.1; in tf32 and bf16 1,000 times that, at least 2e-2 and at most 0.1. Rounding
# grows from step to step in some networks, where a negative that is hardest by a hair is another one, and not in others.
compare() {
  paste <(losses "$1-fp64-cpu") <(losses "$1-fp32-cpu") <(losses "$1-$2-cuda") | awk -v precision="$2" '
    function difference(a, b) { b = (a - b) / (b > 1e-6 ? b : 1e-6); return b < 0 ? -b : b }
    NF != 3 { short = 1; exit }
    { seen = difference($2, $1); grown[NR] = seen > grown[NR - 1] ? seen : grown[NR - 1]; gpu[NR] = difference($3, $1)
      if (!(gpu[NR] == gpu[NR])) bad = 1 }
    END {
      for (i = 1; i <= NR && !short; i++) {
        allowed = 100 * grown[i + 5 < NR ? i + 5 : NR]
        least = precision == "fp32" ? 3e-6 : 2e-2
        if (precision != "fp32") allowed *= 1000
        if (allowed < least) allowed = least
        if (allowed > 0.1) allowed = 0.1
        if (gpu[i] > allowed) bad = 1
        if (gpu[i] / allowed >= worst) { worst = gpu[i] / allowed; text = sprintf("%.0e of %.0e", gpu[i], allowed) }
      }
      if (short || NR < 2) { print "none"; exit 1 }
      print text (bad ? " WRONG" : "")
      exit bad
    }'
}

# networks trains every network on the GPU in three precisions, three at a time, and compares their losses.
networks() {
  local n p rest longest=40 pids=() wrong
  [ -n "$emulated" ] && longest=300
  until_there "$work/references" || return 1
  for p in fp32 bf16 tf32; do for n in $networks; do
    rest=$(($(left) - 6))
    [ $rest -ge $longest ] || result=cut
    [ $rest -gt 1 ] || break 2
    [ ${#pids[@]} -lt 3 ] || { wait "${pids[0]}"; pids=("${pids[@]:1}"); }
    training "$n" $p cuda $((rest < longest ? rest : longest))
    pids+=($!)
  done; done
  wait "${pids[@]}"
  for n in $networks; do for p in fp32 tf32 bf16; do
    printf '%s\t%s\t%s\n' "$n" $p "$(compare "$n" $p)"
  done; done >"$out/losses.tsv"
  for n in "$work"/runs/*; do cp "$n/metrics.jsonl" "$out/logs/${n##*/}.jsonl"; done 2>>"$log"
  wrong=$(awk -F'\t' '/WRONG|none/ { print $1, $2 }' "$out/losses.tsv" | paste -sd, | cut -c1-150)
  remark="${wrong:+wrong or missing: $wrong}"
  if grep -q WRONG "$out/losses.tsv"; then result=failed; fi
  [ -z "$wrong" ] && result=''
}

# demo_settings fills the array arguments: a small demo on the emulated driver.
demo_settings() {
  arguments=(--config demo --set "data.dir=$work/demo" --set run.tensorboard=false)
  [ -z "$emulated" ] || arguments+=(--set train.epochs=1 --set train.batch=8 --set model.embed_dim=16 --set model.word_dim=8)
}

# demo_on_processor makes the data set of the demo and trains on the processor.
demo_on_processor() {
  local arguments sizes=''
  [ -n "$emulated" ] && sizes='--train 60 --dev 10 --test 20 --regions 4 --dim 16'
  demo_settings
  "$binary" data synth "$work/demo" $sizes && "$binary" precompute-svd --data "$work/demo" && touch "$work/demo.ready" &&
    "$binary" train "${arguments[@]}" --set device.kind=cpu --run "$work/demo-cpu" &&
    "$binary" eval "$work/demo-cpu" --json "$work/demo-cpu/test.json"
}

# demo PRECISION trains the demo on the GPU; its M-Recall is in the table beside that of the processor.
demo() {
  local arguments
  until_there "$work/demo.ready" || return 1
  demo_settings
  try "$binary" train "${arguments[@]}" --set device.kind=cuda --set "device.precision=$1" --run "$work/demo-$1" &&
    try "$binary" eval "$work/demo-$1" --json "$work/demo-$1/test.json" || return 1
  remark="M-Recall of the test split $(recall "$work/demo-$1")"
}

recall() { awk -v r="$(number "$1/test.json" m_recall)" 'BEGIN { printf r == "" ? "-" : "%.2f", r }'; }

# sanitizer TOOL looks at own products, so that what is looked at is ours; the emulated driver does this itself.
sanitizer() {
  [ -z "$emulated" ] || { remark="the emulated driver looks for the same mistakes in every step"; return 2; }
  local tool seen variants=own-bf16-copies
  tool=$(find_tool compute-sanitizer) || { remark="compute-sanitizer not found (package cuda-sanitizer-12-8)"; return 2; }
  try "$tool" --tool "$1" --error-exitcode 9 "$binary" selftest --in-process --variant $variants || return 1
  seen=$(grep -aoE '[1-9][0-9]* of [0-9]+ kernels for this GPU were launched' "$work/output" | tail -n 1)
  if [ -z "$seen" ]; then
    remark="the sanitizer reports no error, but the program did not run to its end under it"
    return 1
  fi
  remark="$(grep -aE 'ERROR SUMMARY|RACECHECK SUMMARY' "$work/output" | tail -n 1 | sed 's/^=* *//'); $seen"
}

# ------------------------------------------------------------------------------------------------- how fast is it?
# bench_arguments NETWORK PRECISION fills the array arguments.
bench_arguments() {
  arguments=(--config "$(preset "$1")" --set device.kind=cuda --set "device.precision=$2")
  if [ -n "$emulated" ]; then
    settings "$(small "$1" 16)"
    arguments+=(--set train.batch=4 --steps 1 --warmup 1 --regions 3 --feature-dim 8 --vocab-size 60)
  fi
}

# time_row WHO NETWORK PRECISION MILLISECONDS MB
time_row() { (IFS=$'\t'; echo "$*") >>"$out/times.tsv"; }

# bench NETWORK PRECISION times a step of a network at the sizes of Flickr30K, as training does it.
bench() {
  local arguments file=$work/bench.json
  bench_arguments "$1" "$2"
  try_into "$file" "$binary" bench "${arguments[@]}" --json || return 1
  if [ "$(number "$file" replayed)" = 0 ]; then
    remark="no step ran as a recorded CUDA graph: $(grep -aoE '"call_by_call":"[^"]*' "$file" | cut -c17-160)"
    return 1
  fi
  remark=$(cat "$file" | grep -aq '"cublas":' || echo "own products: no cuBLAS")
  [ -n "$emulated" ] || time_row vsetrain "$1" "$2" "$(number "$file" median)" "$(number "$file" gpu_used_mb)"
}

# variant NETWORK FLAGS... times a step in bf16 another way.
variant() {
  local network=$1 arguments
  shift
  bench_arguments "$network" bf16
  try "$binary" bench "${arguments[@]}" --json "$@" || return 1
  [ -n "$emulated" ] || remark="$(number "$work/output" median) ms"
}

# torch NETWORK PRECISION graph|compile times the same step in PyTorch: eagerly, then as a CUDA graph, compiled before that
# or not. A peer that does not run is no failure of ours; what it measured before the limit is kept.
torch() {
  local file=$work/torch.json way seen=''
  [ -z "$emulated" ] || { remark="not on the emulated driver"; return 2; }
  local arguments=(--network "$1" --dtype "$2" --device cuda --steps 10 --warmup 3 --gemm-seconds 0 --graph)
  [[ $1 = @(scan|chan) ]] || arguments+=(--loss lseh)
  [ "$1" = chan ] && arguments+=(--batch 384) # of its preset, as ours
  [ "$3" = graph ] || arguments+=(--compile)
  try_into "$work/lines" "${PYTHON:-python3}" "$here/torch_peer.py" "${arguments[@]}"
  grep -a '^{' "$work/lines" | tail -n 1 >"$file" # a line after each way, of all so far
  for way in eager graph compile; do
    [ -n "$(number "$file" "${way}_ms")" ] || continue
    seen+="${seen:+, }$way $(number "$file" ${way}_ms) ms"
    time_row $way "$1" "$2" "$(number "$file" ${way}_ms)" "$(number "$file" peak_memory_mb)"
  done
  remark="$seen${remark:+; $remark}$(grep -ao '"not_run": "[^"]*' "$file" | tail -n 1 | sed 's/"not_run": "/; not run: /')"
  [[ $seen = *$3* ]] || { [ "$result" = cut ] && return 1; return 2; }
}

# profile NETWORK PRECISION times the kernels of a step one by one, beside their shares of what the GPU reaches.
profile() {
  local arguments file=$out/profile-$1-$2.txt
  bench_arguments "$1" "$2"
  try_into "$file" "$binary" bench "${arguments[@]}" --profile --steps 1 || return 1
  # kernel, calls, MB, GFLOP, share, milliseconds: the name of a kernel may have spaces
  remark=$(awk 'NF >= 6 && $1 == "sum" { print $(NF-4) " kernels, " $(NF-1) " % of the limits" }' "$file")
  [ -n "$emulated" ] || remark+=$(awk 'NF >= 6 && $1 == "sum" { print ", one by one " $NF " ms" }' "$file")
}

# longest [NETWORK-PRECISION] prints the kernels of the GPU in that profile, or in all, each in the network where it takes
# longest: milliseconds a step, microseconds a launch, kernel, network and precision, what it is for.
longest() {
  awk 'FNR == 1 { of = FILENAME; sub(/.*profile-/, "", of); sub(/\.txt$/, "", of); second = 0 }
    /^ *kernel of the GPU / { second = 1; next }
    second && NF >= 6 && $(NF - 4) > 0 && $NF > 0 {
      name = $1
      for (i = 2; i <= NF - 5; i++) name = name " " $i
      printf "%s\t%s\t%s\t%s\t%s\n", $NF, $(NF - 2), name, of, $(NF - 3) }' \
    "$out"/profile-${1:-*}.txt 2>/dev/null | sort -rn | awk -F'\t' '!seen[$3]++'
}

# ncu NETWORK PRECISION looks at the three longest of its kernels, where their warps wait instruction by instruction too.
ncu() {
  local tool kernels arguments report=$work/ncu-$1-$2 file=$out/ncu-$1-$2.txt
  [ -z "$emulated" ] || { remark="there are no counters on the emulated driver"; return 2; }
  tool=$(find_tool ncu) || { remark="ncu not found (package nsight-compute)"; return 2; }
  kernels=$(longest "$1-$2" | awk -F'\t' '$3 !~ /^(product |(host )?copy$|fill$)/ { print $3 }' | head -n 3 | paste -sd'|')
  [ -n "$kernels" ] || { remark="no profile to choose from"; return 2; }
  bench_arguments "$1" "$2"
  try "$tool" --clock-control none --set full --kernel-id "::regex:^($kernels)$:3" --force-overwrite --export "$report" \
    "$binary" bench "${arguments[@]}" --steps 1 --warmup 2 --set device.capture=never || return 1
  try_into "$work/source" "$tool" --import "$report.ncu-rep" --page source --csv && gzip -c "$work/source" >"$out/ncu-$1-$2-source.csv.gz"
  try_into "$file" "$tool" --import "$report.ncu-rep" --page details || return 1
  remark=$(awk -v OFS=' ' '
    /^  [a-z_0-9]+ \(/ { row = row (row == "" ? "" : "; ") $1 }
    /^ *(Duration|DRAM Throughput|Compute \(SM\) Throughput|Achieved Occupancy|Registers Per Thread) / {
      value = $NF; unit = $(NF - 1)
      row = row (/Duration/ ? ", " value " " unit : /DRAM/ ? ", memory " value " %" : /SM/ ? ", SM " value " %" : /Occ/ ? ", occupancy " value " %" : ", " value " registers") }
    END { print row }' "$file")
  [ -n "$remark" ] || { remark="ncu saw no launch of $kernels"; return 1; }
}

# flickr8k LOSS trains VSE-infinity on the folder of --data and tests it.
flickr8k() {
  local run=$work/flickr8k-$1
  [ -n "$data" ] || { remark="no --data"; return 2; }
  try "$binary" train --config "vseinf/f8k-$1-bigru" --set "data.dir=$data" --set device.kind=cuda \
    --set device.precision=bf16 --set run.tensorboard=false --run "$run" || return 1
  cp "$run/metrics.jsonl" "$out/logs/flickr8k-$1.jsonl"
  try "$binary" eval "$run" --json "$run/test.json" || return 1
  remark="M-Recall of the test split $(recall "$run")"
}

# evaluation NETWORK scores all pairs of a split of MS-COCO's size with a network of full size after one step; the seconds
# are those of the whole command. Features are short: only their encoding depends on them.
evaluation() {
  local images=5000 before arguments=()
  [ -n "$emulated" ] && images=5 && settings "$(small "$1" 16)"
  [ -e "$work/coco" ] || try "$binary" data synth "$work/coco" --train 20 --dev 4 --test $images --regions 36 --dim 64 || return 1
  arguments+=(--set "data.dir=$work/coco" --set loss.name=lmh --set train.max_steps=1 --set train.batch=4
    --set train.val_step=0 --set run.tensorboard=false --set device.kind=cuda)
  try "$binary" train --config "$(preset "$1")" "${arguments[@]}" --run "$work/coco-$1" || return 1
  before=$(date +%s%N)
  try "$binary" eval --checkpoint "$work/coco-$1" --device cuda --precision tf32 || return 1
  remark="$images images, $((5 * images)) captions, tf32"
  [ -n "$emulated" ] || remark+=": $(awk -v n=$(($(date +%s%N) - before)) 'BEGIN { printf "%.1f", n / 1e9 }') s"
}

# ----------------------------------------------------------------------------------------------------------- the table
table() {
  local n p=''
  echo "== gpu-check: $gpu; $("$binary" version | head -n 1); $(date -u +%Y-%m-%dT%H:%MZ) =="
  awk -F'\t' '{ n[$2]++; if ($2 == "failed") who = who ", " $1 }
    END { printf "%d steps ok, %d failed, %d skipped, %d cut off, %d without time%s\n", n["ok"], n["failed"], n["skipped"],
      n["cut"], n["waiting"], who == "" ? "" : ". FAILED: " substr(who, 3, 300) }' "$out/steps.tsv"
  grep -aE '^(gpu|driver|cublas|start|kernels|memory|copies|products|warning| {10})' "$out/doctor.txt" 2>/dev/null | cut -c1-110 | head -n 18
  if [ -s "$out/losses.tsv" ]; then
    echo "-- losses of the GPU beside fp64 on the processor: relative difference, and what rounding allows there"
    awk -F'\t' '{ if (!($1 in row)) order[++k] = $1; row[$1] = row[$1] sprintf("%-23s", $2 " " $3) }
      END { for (i = 1; i <= k; i++) printf "%-13s %s\n", order[i], row[order[i]] }' "$out/losses.tsv"
  fi
  for n in "$work"/demo-*/test.json; do [ -e "$n" ] || continue; n=${n%/*}; p+=" ${n##*-} $(recall "$n")"; done
  [ -z "$p" ] || echo "-- demo, M-Recall of the test split:$p"
  if [ -s "$out/times.tsv" ]; then
    echo "-- a step at the sizes of Flickr30K, milliseconds; PyTorch eagerly, as CUDA graphs, compiled; times: its fastest over ours"
    printf '%-13s %-5s %8s %8s %8s %8s %6s %7s\n' network prec vsetrain eager graph compile times MB
    awk -F'\t' '
      function show(x) { return x == "" ? "-" : sprintf("%.2f", x) }
      function times(a, b) { return a > 0 && b > 0 ? sprintf("%.1f", a / b) : "-" }
      { key = $2 SUBSEP $3
        if (ms[$1, key] == "" || $4 < ms[$1, key]) ms[$1, key] = $4 # eager steps are timed before each other way
        if ($1 == "vsetrain") { order[++k] = key; mb[key] = $5 }
        else if (!(key in best) || $4 < best[key]) best[key] = $4 }
      END { for (i = 1; i <= k; i++) { key = order[i]; split(key, f, SUBSEP)
        printf "%-13s %-5s %8s %8s %8s %8s %6s %7d\n", f[1], f[2], show(ms["vsetrain", key]), show(ms["eager", key]), show(ms["graph", key]),
          show(ms["compile", key]), times(best[key], ms["vsetrain", key]), mb[key] } }' "$out/times.tsv"
  fi
  if [ -z "$emulated" ] && [ -n "$(longest)" ]; then
    echo "-- the longest kernels, one by one: ms a step, us a launch, kernel, where, what for"
    longest | head -n 14
  fi
  echo "-- steps, seconds"
  awk -F'\t' '
    $2 == "skipped" || $2 == "waiting" || $2 == "ok" && $1 ~ /^(bench|profile) / { # those of a kind in one line
      key = substr($1, 1, index($1 " ", " ") - 1) "\t" $2 "\t" ($2 == "ok" ? "" : $4)
      if (!(key in n)) order[++k] = key
      n[key]++; s[key] += $3; id[key] = $1; next }
    { printf "%-22s %-7s %4d  %s\n", substr($1, 1, 22), $2, $3, substr($4, 1, $1 ~ /^ncu/ ? 260 : $2 == "ok" ? 110 : 180) }
    END { for (i = 1; i <= k; i++) { split(order[i], f, "\t")
      printf "%-22s %-7s %4d  %s\n", (n[order[i]] > 1 ? f[1] " x" n[order[i]] : substr(id[order[i]], 1, 22)), f[2], s[order[i]], substr(f[3], 1, 120) } }' \
    "$out/steps.tsv"
}

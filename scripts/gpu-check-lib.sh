# Helpers of gpu-check.sh, which sets binary, out, work, budget, emulated and root: running with a limit, records, configurations, the report.

# begin PART starts its clock and its log.
begin() { log=$out/$1.log started=$SECONDS; : >"$log"; printf 'gpu-check: %s\n' "$1" >&2; }

# record PART RESULT SECONDS REMARK
record() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "${4//$'\t'/ }" >>"$out/parts.tsv"; }

skip() { record "$1" skipped 0 "$2"; printf 'gpu-check: %s: skipped: %s\n' "$1" "$2" >&2; }

left() { echo $((budget - SECONDS)); }

# limited SECONDS COMMAND...: at most what is left of the budget. 124: it took longer. 125: there was no time left to begin.
limited() {
  local limit=$1 rest
  shift
  rest=$(left)
  [ "$rest" -ge 5 ] || return 125
  timeout -k 5 $((limit < rest ? limit : rest)) "$@"
}

# run PART LIMIT COMMAND... is a part of one command; remark TEXT then records it.
run() {
  part=$1 limit=$2
  shift 2
  begin "$part"
  limited "$limit" "$@" >"$log" 2>&1
  code=$?
}

remark() {
  case $code in
  0) record "$part" ok $((SECONDS - started)) "$1" ;;
  124 | 137) record "$part" failed $((SECONDS - started)) "took longer than its limit of $limit s" ;;
  125) record "$part" skipped 0 "nothing was left of the $budget s of --budget" ;;
  *) record "$part" failed $((SECONDS - started)) "exit $code: $(tail -n 1 "$log" | cut -c1-200)" ;;
  esac
}

# find_tool NAME looks in PATH, the CUDA toolkit, and what pip installs.
find_tool() {
  local f python
  python=$(type -P "${PYTHON:-python3}") && python=${python%/bin/*}
  type -P "$1" && return
  for f in "${CUDA_HOME:-/usr/local/cuda}/bin/$1" /usr/local/cuda-*/bin/"$1" /usr/local/cuda*/extras/compute-sanitizer/"$1" \
    {"${python:-/usr}","${VIRTUAL_ENV:-/usr/local}","${CONDA_PREFIX:-/usr}",/usr/local,"$HOME/.local"}/lib/python3*/{site,dist}-packages/{nvidia/cuda_nvcc/bin,nvidia/cu1*/bin,triton/backends/nvidia/bin}/"$1"; do
    [ -x "$f" ] && echo "$f" && return
  done
  return 1
}

# gpu is what nvidia-smi calls the GPU that programs see first.
gpu=${CUDA_VISIBLE_DEVICES:-0}
gpu=${gpu%%,*}

# find_cublas asks Python where its cuBLAS lies, unless VSETRAIN_CUBLAS says it.
find_cublas() {
  local file
  [ -z "${VSETRAIN_CUBLAS:-}" ] || return 0
  file=$(timeout 20 "${PYTHON:-python3}" -c '
import glob, os, site, sys
folders = site.getsitepackages() + [site.getusersitepackages()] + sys.path
found = [f for d in folders for f in glob.glob(os.path.join(d, "nvidia", "c*", "lib", "libcublas.so.1[123]"))]
print(found[0] if len(found) == 1 or len(set(map(os.path.basename, found))) == 1 and found else "")' 2>/dev/null) || return 0
  if [ -n "$file" ]; then export VSETRAIN_CUBLAS=$file; fi # several versions: the program chooses by the driver
}

# find_torch prints the version and the GPU of PyTorch, or "none: WHY".
find_torch() {
  [ -z "$emulated" ] || { echo "none: not on the emulated driver"; return; }
  command -v "${PYTHON:-python3}" >/dev/null || { echo "none: no ${PYTHON:-python3}"; return; }
  timeout 60 "${PYTHON:-python3}" -c '
try:
    import numpy, torch
    print(torch.__version__ + " on " + torch.cuda.get_device_name() if torch.cuda.is_available() else "none: torch %s finds no GPU" % torch.__version__)
except Exception as e:
    print("none: %s" % e)' 2>/dev/null || echo "none: ${PYTHON:-python3} failed or took longer than 60 s"
}

# number FILE KEY prints the first number of a key of JSON.
number() { grep -aoE "\"$2\": *-?[0-9.eE+-]+" "$1" | head -n 1 | sed 's/.*: *//'; }

# model NETWORK WIDTH: the fields of a configuration (JSON is YAML) that make a network of full size, or of WIDTH.
model() {
  local wide=${2:-0} text=bigru name=${1%%-*} extra='' dim
  case $1 in vsepp | vsrn) text=gru ;; vseinf-bert) text=bert ;; esac
  dim=$((wide ? wide : 1024))
  case $1 in
  vsrn)
    dim=$((wide ? wide : 2048))
    [ -n "$emulated" ] && extra=', "vsrn": {"caption": false}' # its decoder has sizes of its own
    ;;
  gsmn) ((wide && wide < 64)) && dim=64 ;; # sixteen blocks: a cosine of blocks of one value is a sign, which rounding turns
  saf | sgr) ((wide)) && extra=', "sgraf": {"sim_dim": 16}' ;;
  esac
  ((wide)) && extra+=', "word_dim": 32'
  if [ "$text" = bert ]; then extra=''; fi
  printf '"network": "%s", "text_encoder": "%s", "embed_dim": %d%s' "$name" $text "$dim" "$extra"
}

parity_config() {
  local bert=''
  [ "$1" = vseinf-bert ] && bert=", \"bert\": {\"dir\": \"$5\", \"layers\": 2, \"hidden\": 12, \"heads\": 3, \"intermediate\": 20, \"positions\": 40}"
  printf '{"version": 1, "seed": 3, "data": {"dir": "%s"}, "model": {%s%s}, "loss": {"name": "lmh"}, "optim": {"name": "adam", "lr": 5e-4},
    "train": {"epochs": 50, "max_steps": %d, "batch": %d, "val_step": 0, "log_step": 1, "drop_last": true}, "run": {"tensorboard": false}}\n' \
    "$work/world" "$(model "$1" "$4")" "$bert" "$2" "$3"
}

# compare_losses NETWORK EXIT KIND STEPS: relative to the loss of the processor, 1e-4 in the first ten steps; rounding grows from step to
# step (a negative that is hardest by a hair is another one), so that 2e-2 are allowed in all.
compare_losses() {
  local why
  why=$(grep -ahoE 'vsetrain: .*' "$work/$3.log" | tail -n 1 | cut -c1-160)
  case $2 in
  0) ;;
  124 | 137) printf '%s\tfailed\t\t\t\t\ton %s: took longer than its limit\n' "$1" "$3" >>"$out/parity.tsv"; return 1 ;;
  125) printf '%s\tskipped\t\t\t\t\tnothing was left of the budget\n' "$1" >>"$out/parity.tsv"; return 0 ;;
  *)
    if [[ $why = *'that this version lacks'* ]]; then
      printf '%s\tskipped\t\t\t\t\tthe device lacks kernels of this network\n' "$1" >>"$out/parity.tsv"
      return 0
    fi
    printf '%s\tfailed\t\t\t\t\t%s\n' "$1" "on $3, exit $2: $why" >>"$out/parity.tsv"
    return 1
    ;;
  esac
  losses() { sed -nE '/"kind":"train"/s/.*"loss":([-0-9.eE+]+).*/\1/p' "$work/parity-$1/metrics.jsonl"; }
  paste <(losses "$1-cpu") <(losses "$1-cuda") | awk -v name="$1" -v steps="$4" '
    { d = $2 - $1; if (d < 0) d = -d; d /= ($1 > 1e-6 ? $1 : 1e-6); if (!(d == d)) bad = 1
      if (NR <= 10 && d > early) early = d; if (d > all) all = d; if (NR == 1) first = $1; cpu = $1; gpu = $2 }
    END {
      ok = NR == steps && NF == 2 && !bad && early <= 1e-4 && all <= 2e-2
      printf "%s\t%s\t%.5g\t%.5g\t%.5g\t%.2g\t%d steps; largest difference of all steps %.2g, allowed 1e-4 in ten steps, 2e-2 in all\n", name, ok ? "ok" : "failed", first, cpu, gpu, early, NR, all
      exit !ok
    }' >>"$out/parity.tsv"
}

# bench_row WHO NETWORK PRECISION RESULT MS CAPTIONS MEMORY REMARK
bench_row() { printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$@" >>"$out/bench.tsv"; }

bench_ours() {
  local batch=128 sizes=(--steps 20 --warmup 5) file=$work/ours.json width='' now
  [ "$1" = gsmn ] && batch=64
  [ -n "$emulated" ] && batch=4 width=16 sizes=(--steps 1 --warmup 1 --regions 3 --feature-dim 8 --vocab-size 60)
  local tiny=''
  [ -n "$emulated" ] && [ "$1" = vseinf-bert ] && tiny=', "bert": {"layers": 1, "hidden": 12, "heads": 3, "intermediate": 20, "positions": 40}'
  printf '{"version": 1, "model": {%s%s}, "loss": {"name": "lmh"}, "optim": {"name": "%s"}, "train": {"batch": %d}, "device": {"kind": "cuda", "precision": "%s"}}\n' \
    "$(model "$1" $width)" "$tiny" "$([[ $1 = vseinf-* ]] && echo adamw || echo adam)" $batch "$2" >"$work/bench.yaml"
  limited $((emulated ? 300 : 60)) "$binary" bench --config "$work/bench.yaml" "${sizes[@]}" --json >"$file" 2>"$work/ours.log"
  code=$?
  { echo "--- vsetrain $1 $2: exit $code"; cat "$file" "$work/ours.log"; } >>"$log"
  now=$(number "$file" median)
  if [ $code = 0 ] && [ "$(number "$file" replayed)" = 0 ]; then
    bench_row vsetrain "$1" "$2" failed "$now" '' '' "no step ran as a recorded CUDA graph: $(grep -aoE '"call_by_call":"[^"]*' "$file" | cut -c17-160)"
    return 1
  fi
  case $code in
  0) if [ -n "$emulated" ]; then bench_row vsetrain "$1" "$2" ok '' '' '' 'ran; emulated, no times'; else
      bench_row vsetrain "$1" "$2" ok "$now" "$(number "$file" captions_per_s)" "$(number "$file" gpu_used_mb)" ''; fi ;;
  125) bench_row vsetrain "$1" "$2" skipped '' '' '' 'nothing was left of the budget' ;;
  *)
    if grep -aq 'that this version lacks' "$work/ours.log"; then
      bench_row vsetrain "$1" "$2" skipped '' '' '' 'the device lacks kernels of this network'
      return 0
    fi
    bench_row vsetrain "$1" "$2" failed '' '' '' "exit $code: $(tail -n 1 "$work/ours.log" | cut -c1-160)"
    return 1
    ;;
  esac
}

# bench_torch NETWORK PRECISION eager|compile LIMIT: a peer that does not run is no failure of ours.
bench_torch() {
  local file=$work/torch.json arguments=(--steps 6 --warmup 2)
  [ "$3" = compile ] && arguments+=(--compile)
  limited "$4" "${PYTHON:-python3}" "$here/torch_peer.py" --device cuda --network "$1" --dtype "$2" --gemm-seconds 0.1 "${arguments[@]}" >"$file" 2>"$work/torch.log"
  code=$?
  { echo "--- torch $3 $1 $2: exit $code"; cat "$file"; tail -n 20 "$work/torch.log"; } >>"$log"
  case $code in
  0) bench_row "torch-$3" "$1" "$2" ok "$(number "$file" median)" "$(number "$file" captions_per_s)" "$(number "$file" peak_memory_mb)" '' ;;
  124) bench_row "torch-$3" "$1" "$2" skipped '' '' '' "took longer than $4 s" ;;
  125) bench_row "torch-$3" "$1" "$2" skipped '' '' '' 'nothing was left of the budget' ;;
  *) bench_row "torch-$3" "$1" "$2" skipped '' '' '' "exit $code: $(tail -n 1 "$work/torch.log" | cut -c1-120)" ;;
  esac
}

# report writes report.md and report.json from the tables, prints the former and says how it went.
report() {
  local machine version failed
  version=$("$binary" version)
  machine=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | head -n 1)
  [ -n "$emulated" ] && machine='emulated driver: no GPU, no times'
  awk -F'\t' -v version="$version" -v machine="${machine:-unknown GPU}" -v took=$SECONDS -v now="$(date -u +%Y-%m-%dT%H:%MZ)" -f "$here/gpu-check-report.awk" \
    -v md="$out/report.md" -v json="$out/report.json" "$out/parts.tsv" "$out/parity.tsv" "$out/bench.tsv"
  [ -s "$out/report.md" ] && [ -s "$out/report.json" ] || { echo "gpu-check: no report was written in $out" >&2; return 1; }
  cat "$out/report.md"
  failed=$(awk -F'\t' '$2 == "failed"' "$out/parts.tsv" | wc -l)
  echo "gpu-check: $failed parts failed; report.md and report.json are in $out" >&2
  [ "$failed" = 0 ]
}

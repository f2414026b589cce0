# Machinery of gpu-check.sh, which sets binary, out, work, budget, began, emulated and root: steps with limits that are
# done once, tools, configurations, the report.

# record ID RESULT SECONDS REMARK puts a step into steps.tsv, in place of what stood there.
record() {
  awk -F'\t' -v id="$1" '$2 != id' "$out/steps.tsv" >"$work/steps.tsv"
  printf '%s\t%s\t%s\t%s\t%s\n' "$part" "$1" "$2" "$3" "${4//$'\t'/ }" >>"$work/steps.tsv"
  cp "$work/steps.tsv" "$out/steps.tsv.new" && mv "$out/steps.tsv.new" "$out/steps.tsv"
}

# row TABLE KEYS VALUES...: a line of a table, in place of the one whose first KEYS fields are the same.
row() {
  local table=$out/$1 keys=$2 line
  shift 2
  line=$(IFS=$'\t'; echo "$*")
  awk -F'\t' -v keys="$keys" -v line="$line" 'BEGIN { split(line, own, "\t") }
    { for (i = 1; i <= keys; i++) if ($i != own[i]) { print; next } }' "$table" >"$work/table"
  echo "$line" >>"$work/table"
  cp "$work/table" "$table.new" && mv "$table.new" "$table"
}

left() { echo $((budget - (SECONDS - began))); }

# step ID LIMIT FUNCTION...: does a step that is asked for and not done. The function returns 0 (ok), 1 (failed) or 2
# (skipped: it cannot run here) and leaves the reason in remark; what it runs with try is limited. A step that the end
# of the budget cuts off waits for the next call. The status is 1 where it failed.
step() {
  local id=$1 result started=$SECONDS
  limit=$2 remark='' cut=''
  [ -n "$emulated" ] && limit=600
  shift 2
  listed "$only" "$id" "${only:+}yes" || return 0
  if awk -F'\t' -v id="$id" '$2 == id && $3 == "ok" { found = 1 } END { exit !found }' "$out/steps.tsv" &&
    { ! listed "$again" "$id" '' || listed "$repeated" "$id" ''; }; then
    return 0
  fi
  if [ "$(left)" -lt 15 ]; then
    record "$id" waiting 0 "the $budget s of this call were used up; the same command goes on"
    return 0
  fi
  log=$out/logs/${id// /-}.log
  : >"$log"
  printf 'gpu-check: %s: %s\n' "$part" "$id" >&2
  "$@"
  case $? in 0) result=ok ;; 2) result=skipped ;; *) result=failed ;; esac
  if [ $result = failed ] && [ -n "$cut" ]; then
    result=waiting remark="cut off where the $budget s of this call were used up; the same command does it again"
  fi
  record "$id" $result $((SECONDS - started)) "$remark"
  repeated+=,$id
  [ $result = ok ] || printf 'gpu-check: %s: %s: %s\n' "$id" "$result" "$remark" >&2
  report
  [ $result != failed ]
}

# listed LIST ID IF-EMPTY: whether a list of steps, separated by commas, names this one or the kind of it.
listed() {
  [ -n "$1" ] || { [ -n "$3" ]; return; }
  [[ ,$1, = *,"$2",* || ,$1, = *,"${2%% *}",* ]]
}

# try COMMAND... runs a command of the step within its limit, into the log; what went wrong is in remark.
try() { try_into "$work/output" "$@"; }

# try_into FILE COMMAND... also keeps standard output.
try_into() {
  local file=$1 rest code
  shift
  rest=$(left)
  await timeout -k 5 $((limit < rest ? limit : rest)) "$@" >"$file" 2>"$work/errors"
  code=$?
  { echo "--- $*: exit $code"; cat "$file" "$work/errors"; } >>"$log"
  case $code in
  0) return 0 ;;
  124 | 137)
    if [ "$rest" -lt "$limit" ]; then cut=1; fi
    remark="took longer than its limit of $limit s"
    ;;
  *) remark="exit $code: $(cat "$file" "$work/errors" | grep -av '^ *$' | tail -n 1 | cut -c1-200)" ;;
  esac
  return 1
}

# await COMMAND... runs a command so that a signal reaches it at once: bash runs no trap while it waits in front.
await() {
  local code
  "$@" &
  child=$!
  wait $child
  code=$?
  child=''
  return $code
}

# find_tool NAME looks in PATH, the CUDA toolkit, and what pip installs.
find_tool() {
  local f python
  python=$(type -P "${PYTHON:-python3}") && python=${python%/bin/*}
  type -P "$1" && return
  for f in "${CUDA_HOME:-/usr/local/cuda}/bin/$1" /usr/local/cuda-*/bin/"$1" \
    /usr/local/cuda*/extras/compute-sanitizer/"$1" /opt/nvidia/nsight-compute/*/"$1" \
    {"${python:-/usr}","${VIRTUAL_ENV:-/usr/local}","${CONDA_PREFIX:-/usr}",/usr/local,"$HOME/.local"}/lib/python3*/{site,dist}-packages/{nvidia/cuda_nvcc/bin,nvidia/cu1*/bin,triton/backends/nvidia/bin}/"$1"; do
    [ -x "$f" ] && echo "$f" && return
  done
  return 1
}

# find_machine asks nvidia-smi once what GPU this is, for the report's head: without persistence mode each call starts all
# GPUs of the machine anew, and a GPU that hangs hangs it too. It turns the mode on where it may, until the end.
find_machine() {
  local machine mode
  if [ -n "$emulated" ]; then
    machine='emulated driver: no GPU, no times'
  elif await timeout -k 5 20 nvidia-smi --query-gpu=name,driver_version,memory.total,persistence_mode \
    --format=csv,noheader >"$work/machine" 2>&1; then
    read -r machine <"$work/machine"
    mode=on
    if [ "${machine##*, }" != Enabled ]; then
      mode=off
      if await timeout -k 5 20 nvidia-smi -pm 1 >"$work/machine" 2>&1; then persisting=1 mode='on until the end'; fi
    fi
    machine="${machine%, *}, persistence mode $mode"
  else # 124: no answer in time, 127: no such program
    machine="unknown GPU: nvidia-smi: exit $?"
  fi
  echo "$machine" >"$out/machine"
}

# find_cublas asks Python where its cuBLAS lies, unless VSETRAIN_CUBLAS says it. Its folders join those in which the
# program looks, which takes the first file that starts.
find_cublas() {
  local folders
  [ -z "${VSETRAIN_CUBLAS:-}" ] || return 0
  command -v "${PYTHON:-python3}" >/dev/null || return 0
  await timeout -k 5 20 "${PYTHON:-python3}" -c '
import glob, os, site, sys
folders = site.getsitepackages() + [site.getusersitepackages()] + sys.path
found = [f for d in folders for f in glob.glob(os.path.join(d, "nvidia", "c*", "lib", "libcublas.so.1[123]"))]
print(":".join(dict.fromkeys(map(os.path.dirname, found))))' >"$work/folders" 2>/dev/null || return 0
  folders=$(cat "$work/folders")
  if [ -n "$folders" ]; then export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folders; fi
}

# find_torch writes the version and the GPU of PyTorch into $work/torch, or "none: WHY"; it asks once.
find_torch() {
  [ ! -e "$work/torch" ] || return 0
  if [ -n "$emulated" ]; then
    echo "none: not on the emulated driver"
  elif ! command -v "${PYTHON:-python3}" >/dev/null; then
    echo "none: no ${PYTHON:-python3}"
  else
    await timeout -k 5 60 "${PYTHON:-python3}" -c '
try:
    import numpy, torch
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    print(torch.__version__ + " on " + name if name else "none: torch %s finds no GPU" % torch.__version__)
except Exception as e:
    print("none: %s" % e)' 2>/dev/null || echo "none: ${PYTHON:-python3} failed or took longer than 60 s"
  fi >"$work/torch"
}

# number FILE KEY prints the first number of a key of JSON.
number() { grep -aoE "\"$2\": *-?[0-9.eE+-]+" "$1" | head -n 1 | sed 's/.*: *//'; }

# preset NETWORK names the configuration of a network at full size.
preset() {
  case $1 in
  vseinf-*) echo "vseinf/f30k-lseh-${1#*-}" ;;
  scan) echo scan/f30k-benchmark-ti-lse ;;
  chan) echo chan/f30k-benchmark-bigru ;;
  *) echo "$1/f30k-lseh" ;;
  esac
}

# small NETWORK WIDTH prints settings that make a network small, a line each.
small() {
  local width=$2
  case $1 in
  gsmn) [ "$width" -lt 64 ] && width=64 ;; # sixteen blocks: a cosine of blocks of one value is a sign
  saf | sgr) echo model.sgraf.sim_dim=16 ;;
  vsrn) [ -n "$emulated" ] && echo model.vsrn.caption=false ;; # its decoder has sizes of its own
  vseinf-bert)
    printf 'model.bert.%s\n' layers=2 hidden=12 heads=3 intermediate=20 positions=40 init=random
    ;;
  esac
  echo "model.embed_dim=$width"
  [ "$1" = vseinf-bert ] || echo model.word_dim=32
  echo optim.warmup_steps=0
}

# settings FLAG LINES: each line as an argument behind the flag, into the array arguments.
settings() {
  local line
  while read -r line; do [ -z "$line" ] || arguments+=(--set "$line"); done <<<"$1"
}

# report writes report.md and report.json from the tables.
report() {
  awk -F'\t' -v version="$("$binary" version)" -v machine="$(cat "$out/machine")" \
    -v now="$(date -u +%Y-%m-%dT%H:%MZ)" \
    -f "$here/gpu-check-report.awk" -v md="$work/report.md" -v json="$work/report.json" \
    "$out/steps.tsv" "$out/parity.tsv" "$out/bench.tsv" "$out/profile.tsv"
  [ -s "$work/report.md" ] && [ -s "$work/report.json" ] || { echo "gpu-check: no report was written" >&2; return 1; }
  cp "$work/report.md" "$work/report.json" "$out"
}

# Machinery of gpu-check.sh: steps with limits, one archive, tools, configurations. The steps are in gpu-check-steps.sh.

left() { echo $((budget - SECONDS)); }

# listed ID: whether --only asks for this step, or for a step of this kind.
listed() { [ -z "$only" ] || [[ ,$only, = *,"$1",* || ,$only, = *,"${1%% *}",* ]]; }

# step ID LIMIT FUNCTION...: does a step and writes its row. The function returns 0 (ok), 1 (failed) or 2 (skipped: it
# cannot run here) and leaves in remark what it saw; what it starts with try is limited. A step that the end of the budget
# cuts off is no failure, unless it is the first. The status is that of the function.
step() {
  local id=$1 from=$SECONDS code=1
  limit=$2 remark='' result=''
  log=$out/logs/${id// /-}.txt
  shift 2
  listed "$id" || return 0
  [ -z "$emulated" ] || limit=600
  if [ "$(left)" -lt 8 ]; then
    result=waiting remark="no time left"
  else
    echo "gpu-check: $id, $(left) s left" >&2
    : >"$log"
    "$@"
    code=$?
    case $code in 0) result=ok ;; 2) result=skipped ;; *) result=${result:-failed} ;; esac
  fi
  # Nothing is known of a GPU on which the first step does not end.
  [[ $result = @(cut|waiting) && ! -s $out/steps.tsv ]] && result=failed
  [ "$result" = ok ] || echo "gpu-check: $id: $result: $remark" >&2
  printf '%s\t%s\t%d\t%s\n' "$id" "$result" $((SECONDS - from)) "${remark//$'\t'/ }" >>"$out/steps.tsv"
  [ "$result" = waiting ] || keep
  return $code
}

# try COMMAND... runs a command of the step within its limit, into the log; what went wrong is in remark.
try() { try_into "$work/output" "$@"; }

# try_into FILE COMMAND... also keeps standard output.
try_into() {
  local file=$1 rest code
  shift
  rest=$(($(left) - 4)) # for the table
  timeout -k 3 $((limit < rest ? limit : rest > 1 ? rest : 1)) "$@" >"$file" 2>"$work/errors" </dev/null &
  wait $! # not in front: bash runs no trap while it waits there
  code=$?
  { echo "--- $*: exit $code"; cat "$file" "$work/errors"; } >>"$log"
  case $code in
  0) return 0 ;;
  124 | 137)
    remark="took longer than its limit of $limit s"
    [ "$rest" -ge "$limit" ] || result=cut remark="cut off at the end of the $budget s"
    ;;
  *) remark="exit $code: $(cat "$file" "$work/errors" | grep -av '^ *$' | tail -n 1 | cut -c1-200)" ;;
  esac
  return 1
}

# keep writes everything so far into the archive, with its table. It is renamed into place: a script that is killed leaves
# the last one.
keep() {
  { table | head -c 9800; echo; echo "gpu-check: $SECONDS s of $budget s; logs are in $archive"; } >"$out/table.txt"
  tar czf "$archive.new" -C "$out" . && mv "$archive.new" "$archive"
}

# beside NAME LIMIT FUNCTION: a function beside the steps, in a process group of its own.
beside() { timeout -k 3 "$2" nice bash -c "$(declare -f); $3" >"$out/logs/$1.txt" 2>&1 </dev/null & }

# quiet waits until nothing runs beside the steps, as long as there is time.
quiet() {
  while [ -n "$(jobs -rp)" ] && [ "$(left)" -gt 8 ]; do sleep 0.2; done
}

# finish ends what still runs and prints the table; also after a signal, or after nothing that could be done.
finish() {
  local running
  running=$(jobs -p) reader=${reader:-}
  [ -z "$running$reader" ] || { kill $running $reader && wait; } 2>/dev/null
  keep
  cat "$out/table.txt"
  rm -rf "$work"
}

# find_machine asks nvidia-smi once what GPU this is, and then reads its state until the end: without a reader the driver
# starts the GPU anew for every command, where persistence mode is off.
find_machine() {
  gpu='emulated driver: no GPU, no times'
  if [ -z "$emulated" ]; then
    timeout -k 3 20 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader >"$work/gpu" 2>&1 &
    wait $! && read -r gpu <"$work/gpu" || gpu="unknown GPU: nvidia-smi: exit $?" # 124: no answer in time
    nvidia-smi dmon -s pucm -d 2 >"$out/logs/dmon.txt" 2>&1 &
    reader=$!
    disown
  fi
}

# find_tool NAME looks in PATH, the CUDA toolkit, and what pip installs.
find_tool() {
  local f python
  python=$(type -P "${PYTHON:-python3}") && python=${python%/bin/*}
  type -P "$1" && return
  for f in "${CUDA_HOME:-/usr/local/cuda}/bin/$1" /usr/local/cuda-*/bin/"$1" \
    /usr/local/cuda*/extras/compute-sanitizer/"$1" /opt/nvidia/nsight-compute/*/"$1" \
    {"${python:-/usr}","${VIRTUAL_ENV:-/usr/local}","${CONDA_PREFIX:-/usr}",/usr/local,"$HOME/.local"}/lib/python3*/{site,dist}-packages/nvidia/{cuda_nvcc,cu1*}/bin/"$1"; do
    [ -x "$f" ] && echo "$f" && return
  done
  return 1
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

# settings LINES: each line as an argument after --set, into the array arguments.
settings() {
  local line
  while read -r line; do [ -z "$line" ] || arguments+=(--set "$line"); done <<<"$1"
}

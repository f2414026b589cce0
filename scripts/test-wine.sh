#!/usr/bin/env bash
# Run the program for Windows under Wine: tests of files, then a training that is killed and resumed, interrupted by
# Ctrl-C and Ctrl-Break, evaluated, searched and served, in a folder whose path has spaces, umlauts and more than 260 characters. The
# weights and recalls must equal those of the program for Linux. A minute once compiled. Where Wine or mingw is missing
# it says so and ends with 0 (Debian: wine, wine64 and gcc-mingw-w64-x86-64; scripts/install-test-tools.sh).
#
# Two things stand in for what Debian's Wine 8.0 lacks, for this test alone; neither is part of what is shipped:
#   - bcryptprimitives.dll, from which every program of Go takes random bytes: a few lines of C over advapi32.
#   - tests in Go (not the program) are built with a package of Go's library that knows Wine's answer to a call which
#     Wine lacks, so that they can remove their temporary folders.
#
#   scripts/test-wine.sh
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

for tool in wine x86_64-w64-mingw32-gcc curl; do
  command -v $tool >/dev/null || { echo "test-wine: skipped: there is no $tool here (scripts/install-test-tools.sh)"; exit 0; }
done

work=$(mktemp -d)
export WINEPREFIX=$work/prefix WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml='
unset DISPLAY
trap 'wineserver -k 2>/dev/null || true; rm -rf "$work"' EXIT
fail() { echo "test-wine: $*" >&2; exit 1; }
say() { echo "test-wine: $*"; }

timeout 120 wine wineboot -i >/dev/null 2>&1 || fail "Wine makes no prefix"
cat >"$work/prng.c" <<'C'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG); /* RtlGenRandom */
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) { return SystemFunction036(data, (ULONG)size); }
C
x86_64-w64-mingw32-gcc -shared -o "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" "$work/prng.c" -ladvapi32

# break.exe FILE COMMAND... carries out a command, sends it Ctrl-Break when FILE is there, and ends with its exit code.
# Wine 8 refuses GenerateConsoleCtrlEvent for that; so this begins the thread in which Windows calls the handlers.
cat >"$work/break.c" <<'C'
#include <stdio.h>
#include <windows.h>
int main(int argc, char **argv) {
  STARTUPINFOA start = {sizeof start};
  PROCESS_INFORMATION it;
  DWORD code = 99;
  void *routine = (void *)GetProcAddress(GetModuleHandleA("kernelbase"), "CtrlRoutine");
  char line[4096] = "";
  for (int i = 2; i < argc; i++) snprintf(line + strlen(line), sizeof line - strlen(line), "%s ", argv[i]);
  if (!CreateProcessA(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &start, &it)) return 98;
  while (GetFileAttributesA(argv[1]) == INVALID_FILE_ATTRIBUTES)
    if (WaitForSingleObject(it.hProcess, 20) == WAIT_OBJECT_0) return 97; /* it ended before */
  if (!CreateRemoteThread(it.hProcess, NULL, 0, routine, (void *)CTRL_BREAK_EVENT, 0, NULL)) return 96;
  WaitForSingleObject(it.hProcess, INFINITE);
  GetExitCodeProcess(it.hProcess, &code);
  return code;
}
C
x86_64-w64-mingw32-gcc -o "$work/break.exe" "$work/break.c"

export CGO_ENABLED=0
"$go" build -ldflags -w -o "$work/native" ./cmd/vsetrain
GOOS=windows "$go" build -ldflags -w -o "$work/vsetrain.exe" ./cmd/vsetrain
win() { timeout -s KILL 60 wine "$work/vsetrain.exe" "$@" 2>&1 | tr -d '\r'; }
# AMX is for Linux alone: without it both programs compute by the same instructions.
native() { VSETRAIN_BLAS=$(grep -q amx_tile /proc/cpuinfo && echo avx512) "$work/native" "$@"; }

# Tests of files. Those that are left out want links, pipes, full devices or an error of Linux, or replace a file that
# they have open themselves, which Windows refuses.
from=$("$go" env GOROOT)/src/internal/syscall/windows/at_windows.go
sed 's/^	case STATUS_INVALID_INFO_CLASS,/	case NTStatus(0xC0000002), STATUS_INVALID_INFO_CLASS,/' "$from" >"$work/at.go"
cmp -s "$from" "$work/at.go" && fail "$from is no longer as this script knows it"
echo "{\"Replace\": {\"$from\": \"$work/at.go\"}}" >"$work/overlay.json"
GOOS=windows "$go" test -vet=off -ldflags=-w -count=1 -timeout 5m -overlay "$work/overlay.json" -exec wine \
  -skip '^(TestOpenOnFile|TestExists|TestFindRuns)$' \
  ./internal/files/mapped ./internal/files/atomicfile ./internal/files/runfs ./internal/files/safetensors ./internal/system/process

long=$(printf 'ein Ordner mit Umläuten und Leerzeichen, %.0s' 1 2 3 4)x
cd "$work"
w="$long/$long/world" # more than 260 characters
native data synth "$work/world" --train 40 --dev 12 --test 12 --regions 4 --dim 128 >/dev/null
win data synth "$w" --train 40 --dev 12 --test 12 --regions 4 --dim 128 >log || fail "data synth: $(cat log)"
for f in world/*.npy world/*.txt; do cmp "$f" "$w/${f##*/}" || fail "the data of the two programs differ"; done
say "a world of data is the same, at a path of $(printf %s "$work/$w" | wc -m) characters"

cat >c.yaml <<Y
data: {dir: "$w"}
model: {embed_dim: 128, word_dim: 64}
loss: {name: lmh}
optim: {lr: 2e-3, lr_update: 1}
train: {epochs: 20, batch: 16, val_step: 3, log_step: 1}
Y
# tensors FILE prints what lies behind the header of a safetensors file: weights and moments.
tensors() { tail -c +$((9 + $(od -An -t u8 -N8 "$1"))) "$1" | sha256sum; }
same() {
  for f in best last; do
    [ "$(tensors "$1/checkpoints/$f.safetensors")" = "$(tensors "$2/checkpoints/$f.safetensors")" ] ||
      fail "the $f weights of $1 and $2 differ"
  done
}
native train --config c.yaml --run whole >/dev/null 2>&1

# start RUN trains it in the background; after N lines of its log pid is that of its process.
lines() { if [ -e "$1/metrics.jsonl" ]; then wc -l <"$1/metrics.jsonl"; else echo 0; fi; }
start() {
  local before
  before=$(lines "$1")
  wine "$work/vsetrain.exe" train --config c.yaml --run "$1" --auto-resume >"log" 2>&1 &
  pid=$!
  for _ in $(seq 1000); do
    [ "$(lines "$1")" -lt $((before + $2)) ] || return 0
    kill -0 $pid 2>/dev/null || break
    sleep 0.02
  done
  fail "$1 did not come so far: $(tail -3 log)"
}

for steps in 2 20 40; do
  start "$long/killed" $steps
  kill -KILL $pid
  wait $pid 2>/dev/null || true
  win verify "$long/killed" >verified || fail "after a kill: $(cat verified)"
done
win train --config c.yaml --run "$long/killed" --resume >log || fail "resuming: $(tail -3 log)"
same "$long/killed" whole
say "a training that was killed three times and resumed has the weights of Linux bit for bit"

start stopped 10
win train --config c.yaml --run stopped --resume >second && fail "two trainings write into one run"
grep -q 'in use; it is held by process' second || fail "the second training says: $(cat second)"
kill -INT $pid # Wine makes CTRL_C_EVENT of it
code=0
wait $pid || code=$?
[ $code = 75 ] || fail "Ctrl-C: exit code $code: $(tail -3 log)"
grep -q 'the state is saved, continue with --resume' log || fail "Ctrl-C: $(tail -3 log)"
win train --config c.yaml --run stopped --resume >log || fail "resuming: $(tail -3 log)"
same stopped whole
say "a second training is refused; Ctrl-C saves the state and ends with 75"

code=0
timeout -s KILL 60 wine break.exe broken/checkpoints/last.safetensors vsetrain.exe train --config c.yaml --run broken \
  >log 2>&1 || code=$?
[ $code = 75 ] && grep -q 'the state is saved, continue with --resume' log ||
  fail "Ctrl-Break: exit code $code: $(tail -3 log)"
win train --config c.yaml --run broken --resume >log || fail "resuming: $(tail -3 log)"
same broken whole
say "so does Ctrl-Break"

native eval whole --split dev | sed -n '/^protocol/,$p' >want
win eval "$long/killed" --split dev | sed -n '/^protocol/,$p' >got
[ -s want ] && cmp want got || fail "eval prints $(cat got)"
say "eval prints the same"

wine "$work/vsetrain.exe" serve "$long/killed" --split dev --listen 127.0.0.1:0 >serve.log 2>&1 &
pid=$!
for _ in $(seq 200); do
  url=$(tr -d '\r' <serve.log | grep -o 'http://127.0.0.1:[0-9]*' | head -1) || true
  [ -z "$url" ] && sleep 0.1 || break
done
[ -n "$url" ] || fail "serve: $(cat serve.log)"
caption=$(head -1 world/dev_caps.txt)
curl -sS --max-time 20 "$url/v1/search" -H 'Content-Type: application/json' -d "{\"query\": \"$caption\", \"k\": 3}" >answer
grep -q '"rank":3' answer || fail "serve answers: $(cat answer)"
kill -INT $pid
code=0
wait $pid || code=$?
[ $code = 0 ] || fail "serve: exit code $code: $(tail -3 serve.log)"
say "serve answers, and Ctrl-C ends it"

# refused WHAT COMMAND... must say WHAT.
refused() {
  local what=$1
  shift
  win "$@" >log && fail "$* is not refused"
  grep -q "$what" log || fail "$* says: $(cat log)"
}
refused 'CUDA is supported on linux' train --config c.yaml --run no --set device.kind=cuda
refused 'this build calls no MPI' train --config c.yaml --run no --procs 2
refused 'the launcher slurm is not supported on Windows' launch slurm --nodes 2 --time 1:00:00 -- train --config c.yaml --run no
VSETRAIN_BLAS=openblas refused 'loads no libraries on Windows' train --config c.yaml --run no
say "what Windows lacks is refused by name"
say "passed in $SECONDS seconds"

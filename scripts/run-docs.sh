#!/usr/bin/env bash
# Run the shell blocks of README.md and docs/ as a reader would, in the order of each page, on small synthetic data.
#
#   [STAGE=FOLDER] scripts/run-docs.sh PROGRAM [PAGE...]
#
# A block is fenced with ```sh, or holds lines that begin with "$ " and their output; Python blocks run where python3 has
# NumPy, and so does a notebook. Every page begins with a copy of STAGE, or of what scripts/docs-stage.sh makes. `serve`,
# `view` and `quickstart` run until the next of them begins or the page ends. A block below a comment
# `<!-- not run: REASON -->` is counted and left out.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
program=$(realpath "$1")
shift
pages=("$@")
[ $# -gt 0 ] || pages=("$root"/README.md "$root"/docs/*.md "$root"/docs/log/*.md "$root"/docs/*.ipynb)
for i in "${!pages[@]}"; do pages[i]=$(realpath "${pages[i]}"); done
stage=${STAGE:+$(realpath "$STAGE")}
cd "$root"

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
mkdir -p "$out/bin" "$out/home" "$out/stage"
ln -s "$program" "$out/bin/vsetrain"
printf '#!/bin/sh\n' >"$out/bin/xdg-open" # no browser opens
printf '#!/bin/sh\necho "$0: no block that is run installs or builds; mark it" >&2\nexit 1\n' >"$out/bin/pip"
chmod +x "$out/bin/xdg-open" "$out/bin/pip"
for other in docker go make pip3; do ln -s pip "$out/bin/$other"; done
export PATH="$out/bin:$PATH" HOME="$out/home" XDG_CACHE_HOME="$out/home/cache" PYTHONPATH="$root/python" root

# shellcheck source=scripts/docs-stage.sh
. scripts/docs-stage.sh
python=no
if python3 -c 'import numpy' 2>/dev/null; then python=yes; fi

# Servers run beside the other commands of a page. What a command makes that the stage has too goes first.
vsetrain() {
  case ${1-} in
  serve | view | quickstart) ;;
  train)
    local run
    run=runs/$(sed -nE 's/.*--config ([^ ]*).*/\1/p' <<<"$*" | tr / -)
    if [[ $* == *--run* ]]; then run=$(sed -E 's/.*--run ([^ ]*).*/\1/' <<<"$*"); fi
    if [ -e "$run/staged" ] && [[ $* != *--resume* ]]; then rm -r "$run"; fi
    command vsetrain "$@"
    return
    ;;
  precompute-svd)
    command vsetrain "$@" --force
    return
    ;;
  *)
    command vsetrain "$@"
    return
    ;;
  esac
  stop_server
  VSETRAIN_TRAIN_VAL_STEP=100 command vsetrain "$@" >server.log 2>&1 & # quickstart trains 300 steps
  echo $! >server.pid
  for _ in $(seq 600); do
    if grep -q 'http://' server.log; then return; fi
    if ! kill -0 "$(cat server.pid)" 2>/dev/null; then break; fi
    sleep 0.1
  done
  cat server.log
  rm server.pid
  return 1
}

stop_server() {
  [ -e server.pid ] || return 0
  kill "$(cat server.pid)" 2>/dev/null || true
  while kill -0 "$(cat server.pid)" 2>/dev/null; do sleep 0.05; done
  rm server.pid
}
export -f vsetrain stop_server

# The code cells of a notebook as one program; a line that begins with ! is a command. Its training is a whole one, since
# it says what the network finds.
cells() { # NOTEBOOK
  python3 - "$1" <<'END'
import json, sys
print("""import os, subprocess
for name in [n for n in os.environ if n.startswith(("VSETRAIN_TRAIN_", "VSETRAIN_MODEL_"))]:
    del os.environ[name]""")
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        for line in "".join(cell["source"]).splitlines():
            print(f"subprocess.run({line[1:]!r}, shell=True, check=True)" if line[:1] == "!" else line)
END
}

# Blocks of a page as files NUMBER.LANGUAGE in a folder; those that are left out as NUMBER.not with the reason.
blocks() { # PAGE FOLDER
  if [[ $1 == *.ipynb ]]; then
    if [ $python = no ]; then
      echo "python3 without NumPy" >"$2/0001.not"
    else
      cells "$1" >"$2/0001.python"
    fi
    return
  fi
  awk -v to="$2" '
    /^<!-- not run: .* -->$/ { why = substr($0, 15, length($0) - 18); next }
    /^```/ && !inside {
      inside = 1; name = sprintf("%s/%04d", to, NR + 1); lang = substr($0, 4); text = ""; console = ""; more = 0; next }
    /^```/ {
      inside = 0
      if (lang == "py") lang = "python"
      if (lang == "" && console != "") { lang = "sh"; text = console }
      if (lang == "sh" || lang == "python") {
        if (why != "") print why > (name ".not")
        else printf "%s", text > (name "." lang)
      }
      why = ""; next }
    inside {
      text = text $0 "\n"
      if ($0 ~ /^\$ /) { console = console substr($0, 3) "\n"; more = $0 ~ /\\$/ }
      else if (more) { console = console $0 "\n"; more = $0 ~ /\\$/ }
      next }
    NF { why = "" }' "$1"
}

if [ -n "$stage" ]; then
  cp -a "$stage/." "$out/stage"
else
  (cd "$out/stage" && bash -euo pipefail -c '. "$root/scripts/docs-stage.sh"; make_stage') >"$out/stage.log" 2>&1 || {
    cat "$out/stage.log"
    echo "run-docs: scripts/docs-stage.sh failed" >&2
    exit 1
  }
  echo "run-docs: stage made in $SECONDS s"
fi

ran=0 left=0 failed=0
for page in "${pages[@]}"; do
  mkdir -p "$out/blocks"
  blocks "$page" "$out/blocks"
  began=$SECONDS page=${page#"$root"/}
  [ -z "$(ls "$out/blocks")" ] || cp -a "$out/stage" "$out/page"
  for block in "$out"/blocks/*; do
    [ -e "$block" ] || continue
    line=$((10#$(basename "${block%.*}")))
    case $block in
    *.not)
      left=$((left + 1))
      echo "run-docs: $page:$line not run: $(cat "$block")"
      continue
      ;;
    *.python)
      if [ $python = no ]; then
        left=$((left + 1))
        echo "run-docs: $page:$line not run: python3 without NumPy"
        continue
      fi
      cat "$block" >>"$out/page/blocks.py"
      command=(python3 blocks.py)
      ;;
    *) command=(bash -euo pipefail "$block") ;;
    esac
    if (cd "$out/page" && timeout 120 "${command[@]}") >"$out/log" 2>&1 </dev/null; then
      ran=$((ran + 1))
    elif missing=$(grep -m1 '^ModuleNotFoundError' "$out/log") && [[ $missing != *vsetrain* ]]; then
      left=$((left + 1))
      echo "run-docs: $page:$line not run: $missing"
    else
      ran=$((ran + 1))
      failed=$((failed + 1))
      echo "run-docs: $page:$line FAILED"
      sed 's/^/    /' "$block"
      tail -20 "$out/log" | sed 's/^/  | /'
    fi
  done
  if [ -e "$out/page" ]; then
    (cd "$out/page" && stop_server)
    [ $((SECONDS - began)) -lt 10 ] || echo "run-docs: $page took $((SECONDS - began)) s"
  fi
  rm -rf "$out/page" "$out/blocks"
done
echo "run-docs: $ran blocks run, $failed failed, $left not run; $SECONDS s"
[ $failed = 0 ]

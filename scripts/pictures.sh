#!/usr/bin/env bash
# Draws the pictures in docs/images: pages of `vsetrain view` and plots of runs, all of synthetic worlds. It makes the
# worlds, trains a few small runs and a sweep (some minutes) and takes the screenshots with Chromium. Run it as `make pictures`.
#
#   scripts/pictures.sh [PROGRAM]      PROGRAM is bin/vsetrain unless given
#
# The worlds, the runs and the sweep stay in bin/pictures and are used again; remove the folder to begin anew.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-bin/vsetrain}")
out=$PWD/docs/images
browser=${VSETRAIN_CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
[ -n "$browser" ] || { echo "no Chromium here; scripts/install-test-tools.sh installs it" >&2; exit 1; }
mkdir -p bin/pictures "$out"
cd bin/pictures

train() { # RUN SETTING...
  local run=$1; shift
  [ -e "runs/$run/checkpoints/best.safetensors" ] || "$program" train --config demo --set data.dir=world --run "runs/$run" "$@"
}
[ -e world/train_caps.txt ] || "$program" data synth world --images
[ -e world/train_svd.npy ] || "$program" precompute-svd --data world
train lseh --set loss.warmup_epochs=1
train lmh --set loss.name=lmh --set loss.margin=0.2 --set loss.warmup_epochs=1
train lsh --set loss.name=lsh --set loss.margin=0.2
[ -e small/train_caps.txt ] || "$program" data synth small --train 1000 --regions 12 --dim 128 --images
[ -e small/train_svd.npy ] || "$program" precompute-svd --data small --k 100
train saf --set data.dir=small --set model.network=saf --set model.text_encoder=bigru --set model.embed_dim=128 \
  --set loss.warmup_epochs=1 --set train.epochs=8
cat >sweep.yaml <<'YAML'
base: demo
set: {data.dir: small, train: {epochs: 4}, loss.warmup_epochs: 1}
axes:
  - {param: optim.lr, values: [5.0e-4, 1.0e-3, 2.0e-3, 4.0e-3]}
  - {param: loss.margin, values: [0.1, 0.2]}
  - {param: train.batch, values: [32, 64]}
dir: runs/sweep
YAML
"$program" sweep run --config sweep.yaml
"$program" sweep collect --config sweep.yaml >/dev/null
"$program" report runs/lsh runs/lmh runs/lseh --curves "$out/curves.svg" >/dev/null

profile=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null; rm -rf "$profile"' EXIT

serve() { # WORLD: the page of all runs, with the pictures of a world
  [ -z "$server" ] || kill $server
  "$program" view runs --images "$1/images" --listen 127.0.0.1:0 >view.log 2>&1 &
  server=$!
  until url=$(grep -o 'http://[^ ]*' view.log); do
    kill -0 $server
    sleep 0.2
  done
  url=${url%/}
}

shot() { # FILE WIDTH,HEIGHT PATH
  "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$profile" \
    --window-size="$2" --screenshot="$out/$1" "$url$3" >/dev/null 2>&1
  ! command -v pngquant >/dev/null || pngquant --force --skip-if-larger --output "$out/$1" "$out/$1" || true
}
open() { # RUN: open its network with the test split and wait until its queries can be asked
  curl -s -o /dev/null -d "r=$1&ck=best&split=test" "$url/load"
  for _ in $(seq 300); do
    ! curl -s "$url/search?r=$1&ck=best&split=test" | grep -q 'Opening ' && return
    sleep 1
  done
  echo "the network of $1 did not open in five minutes" >&2
  exit 1
}

serve world
open lseh
shot search.png 1100,760 "/search?r=lseh&ck=best&split=test&q=a+man+throws+a+ball+on+the+beach"
shot mistakes.png 1100,760 "/mistakes?r=lseh&ck=best&split=test"
shot compare.png 1100,920 "/compare?r=lsh&r=lmh&r=lseh"
shot run.png 1100,920 "/run?id=lseh"
shot sweep.png 1100,1250 "/sweep?id=sweep"
serve small
open saf
shot attention.png 1100,920 "/attention?r=saf&ck=best&split=test&i=23&c=115"

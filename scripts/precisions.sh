#!/usr/bin/env bash
# Shows that training with bf16 products ends where training with fp32 ends: VSE-infinity (BiGRU) or GSMN, small, with LSEH on the
# synthetic world, three seeds in either precision, recalls on the test split as a Markdown table. Fails when the mean M-Recalls differ by
# more than seed noise explains: Student's t of the two samples, 95 % two-sided.
#
#   scripts/precisions.sh [PROGRAM [vseinf|gsmn]]    bin/vsetrain and vseinf unless given; data and runs go to a temporary folder
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-bin/vsetrain}")
network=${2:-vseinf}
case $network in
vseinf)
  world="--train 2000 --dev 200 --test 500 --regions 18 --dim 256"
  model="text_encoder: bigru, embed_dim: 256, word_dim: 128, vseinf: {size_augment: true}"
  optim="name: adamw, lr: 1e-3, schedule: once, lr_update: 4, weight_decay: 1e-2"
  ;;
gsmn)
  world="--train 1000 --dev 100 --test 250 --regions 9 --dim 128"
  model="text_encoder: bigru, embed_dim: 256, word_dim: 128, gsmn: {lambda: 10}"
  optim="name: adam, lr: 1e-3, schedule: once, lr_update: 4"
  ;;
*)
  echo "unknown network $network; expected vseinf or gsmn" >&2
  exit 2
  ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2086 # the world is several arguments
"$program" data synth "$work/data" $world >/dev/null
"$program" precompute-svd --data "$work/data" >/dev/null
cat >"$work/config.yaml" <<EOF
version: 1
data: {dir: $work/data}
model: {network: $network, $model}
loss: {name: lseh, margin: 0.185, warmup_epochs: 1}
optim: {$optim}
train: {epochs: 6, batch: 64, val_step: 0, drop_last: true}
EOF

# field KEY FILE prints the numbers of a key in the order of the file.
field() { sed -n 's/.*"'"$1"'": *\([0-9.]*\).*/\1/p' "$2"; }

echo "| seed | precision | i2t R@1 | R@5 | R@10 | t2i R@1 | R@5 | R@10 | M-Recall |"
echo "|---|---|---|---|---|---|---|---|---|"
for seed in 1 2 3; do
  for precision in fp32 bf16; do
    run=$work/$precision-$seed
    "$program" train --config "$work/config.yaml" --set seed=$seed --set device.precision=$precision --run "$run" >/dev/null 2>&1
    # Both are measured in fp32: what is compared is what was learned.
    "$program" eval --checkpoint "$run" --data "$work/data" --json "$run/test.json" >/dev/null
    { field r1 "$run/test.json"; field r5 "$run/test.json"; field r10 "$run/test.json"; } | awk -v s=$seed -v p=$precision -v m="$(field m_recall "$run/test.json")" '
      { v[NR] = $1 }
      END { printf "| %s | %s | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.2f |\n", s, p, v[1], v[3], v[5], v[2], v[4], v[6], m }'
    echo "$precision $(field m_recall "$run/test.json")" >>"$work/recalls"
  done
done

awk '
  { n[$1]++; sum[$1] += $2; squares[$1] += $2 * $2 }
  END {
    for (p in n) { mean[p] = sum[p] / n[p]; variance[p] = (squares[p] - n[p] * mean[p] ^ 2) / (n[p] - 1) }
    d = mean["bf16"] - mean["fp32"]
    limit = 2.776 * sqrt((variance["bf16"] + variance["fp32"]) / 3)  # four degrees of freedom
    printf "\nM-Recall, mean ± standard deviation of three seeds: fp32 %.2f ± %.2f, bf16 %.2f ± %.2f; difference %+.2f, seed noise explains ±%.2f\n",
      mean["fp32"], sqrt(variance["fp32"]), mean["bf16"], sqrt(variance["bf16"]), d, limit
    exit !(d * d <= limit * limit)
  }' "$work/recalls" || { echo "bf16 and fp32 do not end alike" >&2; exit 1; }

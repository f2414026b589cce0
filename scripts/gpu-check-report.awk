# The report of gpu-check.sh from its tables (steps, parity, bench, profile; tab-separated), as Markdown into md and as
# JSON into json.
function quoted(s) { gsub(/\\/, "\\\\", s); gsub(/"/, "\\\"", s); gsub(/[\001-\037]/, " ", s); return "\"" s "\"" }
function value(s) { return s == "" ? "null" : s + 0 }
function cell(s) { gsub(/\|/, "/", s); return s == "" ? "-" : s }
function rounded(s) { return s == "" ? "-" : sprintf(s >= 100 ? "%.0f" : "%.2f", s) }
function ratio(a, b) { return a > 0 && b > 0 ? sprintf("%.2f", a / b) : "-" }
function known(key) { if (!(key in seen)) { seen[key] = 1; order[++nk] = key } }

FILENAME ~ /steps.tsv$/ { steps[++ns] = $0; count[$3]++ }
FILENAME ~ /parity.tsv$/ { pairs[++nq] = $0 }
FILENAME ~ /bench.tsv$/ {
  rows[++nb] = $0
  key = $2 SUBSEP $3
  known(key)
  ms[$1, key] = $4; captions[$1, key] = $5; memory[$1, key] = $6; products[$1, key] = $7
}
FILENAME ~ /profile.tsv$/ {
  profiles[++np] = $0
  key = $1 SUBSEP $2
  known(key)
  launches[key] = $3; predicted[key] = $6; alone[key] = $7
}

END {
  print "# GPU check\n" > md
  printf "%s. %s. %s.\n\n", machine, version, now > md
  printf "%d steps ok, %d failed, %d skipped, %d waiting for another call.\n", count["ok"], count["failed"],
    count["skipped"], count["waiting"] > md
  print "\n| part | step | result | seconds | |\n|---|---|---|---|---|" > md
  for (i = 1; i <= ns; i++) {
    split(steps[i], f, "\t")
    printf "| %s | %s | %s | %s | %s |\n", f[1], f[2], f[3], f[4], cell(f[5]) > md
  }
  if (nk) {
    print "\nA training step at the sizes of Flickr30K, milliseconds: as the model of the GPU predicts it, as a training" \
      " takes it, and\nkernel by kernel. The ratio is that of the training step to the prediction. Where products are vsetrain's own, no" \
      " cuBLAS\nstarted: see doctor.txt.\n" > md
    print "| network | precision | products | launches | predicted | measured | ratio | one by one | captions/s |" \
      " memory, MB |" > md
    print "|---|---|---|---:|---:|---:|---:|---:|---:|---:|" > md
  }
  for (i = 1; i <= nk; i++) {
    k = order[i]; split(k, f, SUBSEP)
    printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", f[1], f[2], cell(products["vsetrain", k]),
      cell(launches[k]), rounded(predicted[k]),
      rounded(ms["vsetrain", k]), ratio(ms["vsetrain", k], predicted[k]), rounded(alone[k]),
      rounded(captions["vsetrain", k]), rounded(memory["vsetrain", k]) > md
  }
  torch = 0
  for (i = 1; i <= nk; i++) if (ms["torch-eager", order[i]] != "" || ms["torch-compile", order[i]] != "") torch++
  if (torch) {
    print "\nThe same step in PyTorch, milliseconds, and how many times as long it takes.\n" > md
    print "| network | precision | vsetrain | eager | times | memory, MB | torch.compile | times |" > md
    print "|---|---|---:|---:|---:|---:|---:|---:|" > md
  }
  for (i = 1; torch && i <= nk; i++) {
    k = order[i]; split(k, f, SUBSEP)
    printf "| %s | %s | %s | %s | %s | %s | %s | %s |\n", f[1], f[2], rounded(ms["vsetrain", k]),
      rounded(ms["torch-eager", k]), ratio(ms["torch-eager", k], ms["vsetrain", k]), rounded(memory["torch-eager", k]),
      rounded(ms["torch-compile", k]), ratio(ms["torch-compile", k], ms["vsetrain", k]) > md
  }
  if (nq) {
    print "\nLosses of training on the synthetic world; differences are relative to the processor's loss.\n" > md
    print "| network | first loss | last, processor | last, GPU | difference in ten steps | in all |" > md
    print "|---|---|---|---|---|---|" > md
  }
  for (i = 1; i <= nq; i++) {
    split(pairs[i], f, "\t")
    printf "| %s | %s | %s | %s | %s | %s |\n", f[1], cell(f[2]), cell(f[3]), cell(f[4]), cell(f[5]), cell(f[6]) > md
  }

  printf "{\"machine\": %s, \"version\": %s, \"date\": %s,\n \"steps\": [", quoted(machine), quoted(version),
    quoted(now) > json
  for (i = 1; i <= ns; i++) {
    split(steps[i], f, "\t")
    printf "%s\n  {\"part\": %s, \"step\": %s, \"result\": %s, \"seconds\": %s, \"remark\": %s}", (i > 1 ? "," : ""),
      quoted(f[1]), quoted(f[2]), quoted(f[3]), value(f[4]), quoted(f[5]) > json
  }
  printf "],\n \"parity\": [" > json
  for (i = 1; i <= nq; i++) {
    split(pairs[i], f, "\t")
    printf "%s\n  {\"network\": %s, \"first_loss\": %s, \"last_loss_cpu\": %s, \"last_loss_gpu\": %s, " \
      "\"difference_in_ten_steps\": %s, \"difference\": %s}", (i > 1 ? "," : ""), quoted(f[1]), value(f[2]), value(f[3]),
      value(f[4]), value(f[5]), value(f[6]) > json
  }
  printf "],\n \"bench\": [" > json
  for (i = 1; i <= nb; i++) {
    split(rows[i], f, "\t")
    printf "%s\n  {\"program\": %s, \"network\": %s, \"precision\": %s, \"step_ms\": %s, \"captions_per_s\": %s, " \
      "\"memory_mb\": %s, \"products\": %s}", (i > 1 ? "," : ""), quoted(f[1]), quoted(f[2]), quoted(f[3]), value(f[4]),
      value(f[5]), value(f[6]), f[7] == "" ? "null" : quoted(f[7]) > json
  }
  printf "],\n \"profile\": [" > json
  for (i = 1; i <= np; i++) {
    split(profiles[i], f, "\t")
    printf "%s\n  {\"network\": %s, \"precision\": %s, \"launches\": %s, \"mb\": %s, \"gflop\": %s, " \
      "\"predicted_ms\": %s, \"measured_ms\": %s}", (i > 1 ? "," : ""), quoted(f[1]), quoted(f[2]), value(f[3]),
      value(f[4]), value(f[5]), value(f[6]), value(f[7]) > json
  }
  print "]}" > json
}

# The report of gpu-check.sh from its three tables (parts, parity, bench; tab-separated), as Markdown into md and as JSON into json.
function quoted(s) { gsub(/\\/, "\\\\", s); gsub(/"/, "\\\"", s); gsub(/[\001-\037]/, " ", s); return "\"" s "\"" }
function value(s) { return s == "" ? "null" : s + 0 }
function cell(s) { gsub(/\|/, "/", s); return s == "" ? "-" : s }
function rounded(s) { return s == "" ? "-" : sprintf(s >= 100 ? "%.0f" : "%.2f", s) }

FILENAME ~ /parts.tsv$/ { parts[++np] = $0 }
FILENAME ~ /parity.tsv$/ { pairs[++nq] = $0 }
FILENAME ~ /bench.tsv$/ {
  rows[++nb] = $0
  key = $2 SUBSEP $3
  if (!(key in seen)) { seen[key] = 1; order[++nk] = key }
  ms[$1, key] = $5; captions[$1, key] = $6; memory[$1, key] = $7; why[$1, key] = $8
}

# faster is how many times as fast as another program vsetrain is.
function faster(who, key) { return ms["vsetrain", key] > 0 && ms[who, key] > 0 ? sprintf("%.1f", ms[who, key] / ms["vsetrain", key]) : "-" }

END {
  print "# GPU check\n" > md
  printf "%s. %s. %s, %d s.\n", machine, version, now, took > md
  print "\n| part | result | seconds | |\n|---|---|---|---|" > md
  for (i = 1; i <= np; i++) { split(parts[i], f, "\t"); printf "| %s | %s | %s | %s |\n", f[1], f[2], f[3], cell(f[4]) > md }
  if (nq) print "\nLosses of training on the synthetic world; the difference is relative to the processor's loss.\n\n| network | result | first loss | last, processor | last, GPU | difference in ten steps | |\n|---|---|---|---|---|---|---|" > md
  for (i = 1; i <= nq; i++) {
    split(pairs[i], f, "\t")
    printf "| %s | %s | %s | %s | %s | %s | %s |\n", f[1], f[2], cell(f[3]), cell(f[4]), cell(f[5]), cell(f[6]), cell(f[7]) > md
  }
  if (nk) print "\nA training step at the sizes of Flickr30K, batch 128 (GSMN 64), milliseconds; memory of the GPU in MB.\n\n| network | precision | vsetrain | captions/s | memory | PyTorch | memory | times as fast | torch.compile | times as fast | |\n|---|---|---|---|---|---|---|---|---|---|---|" > md
  for (i = 1; i <= nk; i++) {
    k = order[i]; split(k, f, SUBSEP)
    note = why["vsetrain", k]
    if (why["torch-eager", k] != "") note = note (note == "" ? "" : "; ") "PyTorch: " why["torch-eager", k]
    if (why["torch-compile", k] != "") note = note (note == "" ? "" : "; ") "torch.compile: " why["torch-compile", k]
    printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", f[1], f[2], rounded(ms["vsetrain", k]), rounded(captions["vsetrain", k]), cell(memory["vsetrain", k]),
      rounded(ms["torch-eager", k]), cell(memory["torch-eager", k]), faster("torch-eager", k), rounded(ms["torch-compile", k]), faster("torch-compile", k), cell(note) > md
  }

  printf "{\"machine\": %s, \"version\": %s, \"date\": %s, \"seconds\": %d,\n \"parts\": [", quoted(machine), quoted(version), quoted(now), took > json
  for (i = 1; i <= np; i++) {
    split(parts[i], f, "\t")
    printf "%s\n  {\"part\": %s, \"result\": %s, \"seconds\": %s, \"remark\": %s}", (i > 1 ? "," : ""), quoted(f[1]), quoted(f[2]), value(f[3]), quoted(f[4]) > json
  }
  printf "],\n \"parity\": [" > json
  for (i = 1; i <= nq; i++) {
    split(pairs[i], f, "\t")
    printf "%s\n  {\"network\": %s, \"result\": %s, \"first_loss\": %s, \"last_loss_cpu\": %s, \"last_loss_gpu\": %s, \"difference_in_ten_steps\": %s, \"remark\": %s}", (i > 1 ? "," : ""),
      quoted(f[1]), quoted(f[2]), value(f[3]), value(f[4]), value(f[5]), value(f[6]), quoted(f[7]) > json
  }
  printf "],\n \"bench\": [" > json
  for (i = 1; i <= nb; i++) {
    split(rows[i], f, "\t")
    printf "%s\n  {\"program\": %s, \"network\": %s, \"precision\": %s, \"result\": %s, \"step_ms\": %s, \"captions_per_s\": %s, \"memory_mb\": %s, \"remark\": %s}", (i > 1 ? "," : ""),
      quoted(f[1]), quoted(f[2]), quoted(f[3]), quoted(f[4]), value(f[5]), value(f[6]), value(f[7]), quoted(f[8]) > json
  }
  print "]}" > json
}

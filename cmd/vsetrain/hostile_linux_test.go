package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vsetrain/lab/try"
)

// Files that claim to be large, or are large and hold nothing, end the program with a message within a gigabyte of
// memory and ten seconds of processor time, which the system takes away beyond: a row for what commands read alone.
func TestHostileFilesInAGigabyte(t *testing.T) {
	const gigabyte = 1 << 30
	npy := func(shape string) string {
		head := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%s,), }", shape)
		head += strings.Repeat(" ", 117-len(head)) + "\n"
		return "\x93NUMPY\x01\x00" + string(binary.LittleEndian.AppendUint16(nil, uint16(len(head)))) + head
	}
	long := binary.LittleEndian.AppendUint64(nil, 1<<62)
	const (
		train = "train --config c.yaml --run new --dry-run "
		bert  = "--set model.network=vseinf --set model.text_encoder=bert --set model.bert.dir=bert " +
			"--set model.bert.layers=1 --set model.bert.hidden=8 --set model.bert.heads=2 " +
			"--set model.bert.intermediate=8"
	)
	base := t.TempDir()
	config := fmt.Appendf(nil, strings.Replace(crashConfig, "../world", "world", 1), "")
	try.Do(t, os.WriteFile(filepath.Join(base, "c.yaml"), config, 0o666))
	mustRun(t, base, "data synth world --train 8 --dev 2 --test 4 --regions 2 --dim 16")
	mustRun(t, base, "train --config c.yaml --run run")
	try.Do(t, os.Mkdir(filepath.Join(base, "bert"), 0o777))
	pieces := "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nthe\n"
	try.Do(t, os.WriteFile(filepath.Join(base, "bert", "vocab.txt"), []byte(pieces), 0o666))
	for _, c := range []struct {
		name, file, begin string
		size              int64 // zeros follow the beginning up to it; 0 is none
		command, want     string
	}{
		{"configuration", "a.yaml", "train:", 2 * gigabyte, "config show --config a.yaml", "too large"},
		{"features that claim much", "d/train_ims.npy", npy("1099511627776, 36, 2048"), 0, "data check d",
			"train_ims.npy"},
		{"header of features", "d/train_ims.npy", "\x93NUMPY\x02\x00\xff\xff\xff\x7f", 2 * gigabyte, "data check d",
			"train_ims.npy"},
		{"captions", "d/train_caps.txt", "a dog\n", 5 * gigabyte, "data vocab d", "at most 4294967295"},
		{"manifest", "d/vsetrain-manifest.json", `{"sha256":"`, 2 * gigabyte, "verify d", "too large"},
		{"header of safetensors", "a.safetensors", string(long), 2 * gigabyte, "verify a.safetensors",
			"at most 100000000"},
		{"header of a checkpoint", "b.safetensors", string(long), 0, "eval b.safetensors", "at most 100000000"},
		{"pickle", "a.pth.tar", "\x80\x02\x8e" + string(long), 2 * gigabyte, "eval a.pth.tar",
			"not a PyTorch checkpoint"},
		{"record of events", "events.out.tfevents.1.a", string(long), 2 * gigabyte, "verify events.out.tfevents.1.a",
			"broken record"},
		{"sweep", "s.yaml", "axes:", 2 * gigabyte, "sweep status s.yaml", "too large"},
		{"TSV", "a.tsv", "1\t2", 2 * gigabyte, "data convert a.tsv --out o --split train", "a.tsv"},
		{"captions and splits", "k.json", `{"images": [{"raw": "`, 2 * gigabyte, "data convert k.json --out o",
			"too large"},
		{"vocabulary", "v.json", `{"word2idx": {"`, 2 * gigabyte, train + "--set data.vocab=v.json",
			"at most 268435456"},
		{"word vectors", "v.txt", "dog 1 ", 2 * gigabyte, train + "--set model.word_init=v.txt",
			"of more than 2097152"},
		{"word pieces", "bert/vocab.txt", "[PAD]", 2 * gigabyte, train + bert, "at most 67108864"},
		{"letters of BERT", "bert/tokenizer_config.json", "{", 2 * gigabyte, train + bert, "at most 67108864"},
		{"settings of BERT", "bert/config.json", "{", 2 * gigabyte, train + bert, "at most 1048576"},
		{"log of a run", "run/metrics.jsonl", "{", gigabyte / 8, "verify run", "metrics.jsonl"},
		{"record of sessions", "run/env.json", "{", 2 * gigabyte, "report run --out o", "at most 67109120"},
		{"head of a journal", "world/test_changes.bin", "VSEJRNL1\xff\xff\xff\x7f", 2 * gigabyte,
			"search dogs --checkpoint run", "a head of 2147483647 bytes"},
		{"records of a journal", "world/test_changes.bin", "VSEJRNL1\x00\x00\x00\x00\x00\x00\x00\x00" +
			strings.Repeat("\x02\x00\x08\x00{}\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 1<<16), 0,
			"search dogs --checkpoint run", "much that may be the beginning"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			try.Do(t, os.CopyFS(dir, os.DirFS(base)))
			path := filepath.Join(dir, c.file)
			try.Do(t, os.MkdirAll(filepath.Dir(path), 0o777))
			try.Do(t, os.WriteFile(path, []byte(c.begin), 0o666))
			if c.size > 0 {
				if err := os.Truncate(path, c.size); err != nil {
					t.Skip(err)
				}
			}
			cmd := exec.Command("sh", "-c", "ulimit -d 1048576 && ulimit -t 10 && exec vsetrain "+c.command)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOGC=100") // what users have
			start := time.Now()
			out, err := cmd.CombinedOutput()
			used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			text := string(out)
			crashed := strings.Contains(text, "goroutine ") || strings.Contains(text, "fatal error")
			if code := cmd.ProcessState.ExitCode(); err == nil || code != 1 && code != 2 || crashed ||
				!strings.Contains(text, c.want) || len(text) > 4000 {
				t.Errorf("%s: code %d: %.2000s", c.command, code, text)
			}
			t.Logf("%v of processor time in %v: %.200s", used, time.Since(start), text)
		})
	}
}

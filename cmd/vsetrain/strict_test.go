package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"vsetrain/lab/emulator"
	"vsetrain/lab/selftest"
	"vsetrain/lab/try"
)

// strict runs the program on the strict driver, which computes nothing, and sums the calls that it counts.
type strict struct {
	library string
	mu      sync.Mutex
	counts  map[string]int
}

func newStrict(t *testing.T) *strict {
	return &strict{library: emulator.Strict(t), counts: map[string]int{}}
}

// run fails for every violation, and where the driver saw no work or no recorded step, so that nothing was checked.
// capability is the capability of the GPU.
func (s *strict) run(t *testing.T, dir, capability, command string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	var out bytes.Buffer
	c := vsetrain(dir, &out, command)
	c.Env = append(os.Environ(), "VSETRAIN_CUDA_DRIVER="+s.library, "VSETRAIN_CUBLAS="+s.library, "VSETRAIN_NVML=none",
		"STRICT_CUDA_LOG="+log, "STRICT_CUDA_CAPABILITY="+capability)
	if err := c.Run(); err != nil {
		t.Errorf("vsetrain %s: %v\n%s", command, err, &out)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatalf("vsetrain %s: the driver counted nothing: %v", command, err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if count, ok := strings.CutPrefix(line, "count "); ok {
			at := strings.LastIndexByte(count, ' ')
			counts[count[:at]], _ = strconv.Atoi(count[at+1:])
			continue
		}
		t.Errorf("vsetrain %s: %s", command, line)
	}
	wants := []string{"cuLaunchKernel", "cublasGemmStridedBatchedEx", "cuMemcpyHtoDAsync", "cuMemFree"}
	if !strings.HasPrefix(command, "eval") {
		wants = append(wants, "cuStreamEndCapture", "cuGraphLaunch")
	}
	for _, want := range wants {
		if counts[want] == 0 {
			t.Errorf("vsetrain %s: no %s", command, want)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, n := range counts {
		s.counts[k] += n
	}
}

// bench takes steps of a preset at full size but for its vocabulary, and the layers of BERT.
func (s *strict) bench(t *testing.T, preset, precision, capability, flags string) {
	t.Helper()
	s.run(t, t.TempDir(), capability, "bench --steps 2 --vocab-size 500 --set device.kind=cuda --set "+
		"model.bert.layers=2 --set device.precision="+precision+" --config "+preset+" "+flags)
}

const strictConfig = `data: {dir: world}
model: {embed_dim: 64, word_dim: 32}
loss: {name: lmh}
optim: {lr: 2e-3}
train: {epochs: 3, batch: 16, val_step: 0, log_step: 1}
device: {kind: cuda}
`

// train trains, resumes and evaluates a network, its features resident on the GPU or not.
func (s *strict) train(t *testing.T, network, resident string) {
	t.Helper()
	dir := t.TempDir()
	try.Do(t, os.WriteFile(filepath.Join(dir, "c.yaml"), []byte(strictConfig), 0o666))
	mustRun(t, dir, "data synth world --train 40 --dev 12 --test 12 --regions 36 --dim 128 --dtype f16")
	set := " --set model.network=" + network + " --set device.resident=" + resident
	if network != "vsepp" {
		set += " --set model.text_encoder=bigru"
	}
	s.run(t, dir, "90", "train --config c.yaml --run r --set train.epochs=2"+set)
	s.run(t, dir, "90", "train --resume --run r --set train.epochs=3")
	s.run(t, dir, "90", "eval --checkpoint r --data world")
}

// The calls of a GPU's driver are those that it takes: one network with features on the GPU, one with streamed ones,
// and a training.
func TestStrictDriver(t *testing.T) {
	s := newStrict(t)
	s.bench(t, "vsepp/f30k-lseh", "bf16", "90", "")
	s.bench(t, "gsmn/f30k-lseh", "tf32", "90", "--stream")
	s.train(t, "saf", "auto")
	if s.counts["together"] == 0 || s.counts["cublasLtMatmul"] == 0 {
		t.Error("no cooperative launches, or no products with a bias")
	}
}

// TestStrictDriverAll takes steps of every network in every precision, with resident and with streamed features, and on
// GPUs of every compute capability whose registers are known; and trains, resumes and evaluates some.
func TestStrictDriverAll(t *testing.T) {
	s := newStrict(t)
	presets := []string{"vsepp/f30k-lseh", "vsrn/f30k-lseh", "saf/f30k-lseh", "sgr/f30k-lseh", "vseinf/f30k-lseh-bigru",
		"vseinf/f30k-lseh-bert", "gsmn/f30k-lseh", "scan/f30k-benchmark-ti-lse", "scan/f30k-benchmark-it-avg",
		"chan/f30k-benchmark-bigru", "chan/f30k-benchmark-bert"}
	others := map[string]string{"75": "fp32", "80": "bf16", "100": "tf32", "120": "bf16"} // precisions by capability
	t.Run("all", func(t *testing.T) {
		run := func(name string, f func(*testing.T)) {
			t.Run(name, func(t *testing.T) { t.Parallel(); f(t) })
		}
		for _, p := range presets {
			for _, precision := range []string{"fp32", "tf32", "bf16"} {
				run(p+"/"+precision, func(t *testing.T) { s.bench(t, p, precision, "90", "") })
				run(p+"/"+precision+"/stream", func(t *testing.T) { s.bench(t, p, precision, "90", "--stream") })
			}
			for capability, precision := range others {
				run(fmt.Sprintf("%s/%s/sm_%s", p, precision, capability),
					func(t *testing.T) { s.bench(t, p, precision, capability, "") })
			}
		}
		for _, set := range [][2]string{{"vsepp/f30k-lmh2", "model.vsepp.measure=order"}, {"gsmn/f30k-luwm",
			"model.gsmn.mode=dense"}, {"gsmn/f30k-lseh", "model.gsmn.neighbors=true"}, {"vsepp/f30k-lseh",
			"loss.name=infonce"}} {
			run(set[0]+"/"+set[1], func(t *testing.T) { s.bench(t, set[0], "bf16", "90", "--set "+set[1]) })
		}
		for _, network := range []string{"vsepp", "saf", "vseinf", "gsmn", "scan"} {
			for _, resident := range []string{"auto", "never"} {
				run(network+"/train/"+resident, func(t *testing.T) { s.train(t, network, resident) })
			}
		}
	})
	kernels, launches := 0, 0
	for k, n := range s.counts {
		if strings.HasPrefix(k, "kernel ") {
			kernels, launches = kernels+1, launches+n
		}
	}
	t.Logf("%d launches of %d kernels, %d cooperative", launches, kernels, s.counts["together"])
	t.Logf("%d products, %d with a bias; %d copies to the GPU; %d recordings, %d replays",
		s.counts["cublasGemmStridedBatchedEx"], s.counts["cublasLtMatmul"], s.counts["cuMemcpyHtoDAsync"],
		s.counts["cuStreamEndCapture"], s.counts["cuGraphLaunch"])
}

// A whole selftest passes on a healthy GPU, whose kernels it launches all. It fails where a kernel is taken out of what
// was launched, whichever that is, and names it. It takes ten minutes: make test-selftest.
func TestWholeSelftest(t *testing.T) {
	library := emulator.Library(t)
	var out, errors bytes.Buffer
	c := vsetrain(t.TempDir(), &out, "selftest --json")
	c.Env = append(os.Environ(), "VSETRAIN_CUDA_DRIVER="+library, "VSETRAIN_CUBLAS="+library, "VSETRAIN_NVML=none")
	c.Stderr = &errors
	if err := c.Run(); err != nil {
		t.Errorf("%v: %s", err, &errors)
	}
	var r selftestReport
	try.Do(t, json.Unmarshal(out.Bytes(), &r))
	launched := map[string]bool{}
	for _, x := range r.Results {
		for _, k := range x.Kernels {
			launched[k] = true
		}
		if len(x.Failures) > 0 {
			t.Errorf("%s, %s: %q", x.Variant, x.Family, x.Failures)
		}
	}
	t.Logf("%d of %d kernels were launched by %d tests", len(launched), r.Kernels, len(r.Results))
	if len(launched) != r.Kernels || r.Kernels == 0 || len(r.Barred) > 0 || len(r.Skipped) > 0 {
		t.Errorf("%d of %d kernels were launched, %v barred, %v skipped", len(launched), r.Kernels, r.Barred, r.Skipped)
	}
	all := slices.Sorted(maps.Keys(launched))
	for _, out := range append([]string{""}, all...) {
		again := newSelftestReport(&selftestOptions{}, newApp(new(bytes.Buffer), nil))
		again.opened(selftest.Device{Variant: "fp32", Name: "a GPU", Kernels: all})
		for _, x := range r.Results {
			x.Kernels = slices.DeleteFunc(slices.Clone(x.Kernels), func(k string) bool { return k == out })
			again.each(x)
		}
		if err := again.end(nil); out == "" {
			try.Do(t, err)
		} else {
			try.Fails(t, err, "kernels for this GPU were launched, never: "+out)
		}
	}
}

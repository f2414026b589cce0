package bench

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/compute/device/cuda/kernels"
	"vsetrain/internal/compute/device/cuda/model"
	"vsetrain/internal/compute/device/cuda/null"
	"vsetrain/internal/run/config"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// fullSize is the configuration of a network as its article has it, at batch 128 (GSMN 64).
func fullSize(network string) *config.Config {
	c := config.Default()
	c.Device.Kind, c.Loss.Name, c.Train.Batch = "cuda", "lmh", 128
	c.Model.Network, c.Model.EmbedDim, c.Model.TextEncoder = network, 1024, "bigru"
	switch network {
	case models.VSEPP:
		c.Model.TextEncoder = "gru"
	case models.VSRN:
		c.Model.TextEncoder, c.Model.EmbedDim = "gru", 2048
	case "vseinf-bert":
		c.Model.Network, c.Model.TextEncoder = models.VSEInf, models.TextBert
	case models.GSMN:
		c.Train.Batch = 64
	}
	return &c
}

// streamedHalves are streamed features of float16.
const streamedHalves = "streamed float16"

// fullSteps does steps of full size on the driver that computes nothing, twice as many as there are batches and a few
// more, and returns the host's milliseconds of the fastest.
func fullSteps(t *testing.T, c *config.Config, n *null.Driver, features string) (host float64,
	predicted *model.Table) {
	t.Helper()
	b := newBench(Request{Config: c, Now: time.Now, Stream: features != featuresResident})
	defer b.Close()
	check := func(err error) {
		t.Helper()
		try.Do(t, err)
	}
	dev, err := cuda.Open(cuda.Options{On: n, Precision: c.Device.Precision})
	check(err)
	dims := models.Dims{Regions: 36, Feature: 2048, Vocab: flickrWords}
	if c.Model.TextEncoder == models.TextBert {
		dims.Vocab = bertPieces
	}
	check(b.Build(dev, c.Device.Precision, dims))
	memory, err := b.PlanMemory(t.Context())
	check(err)
	check(b.draw(memory, dims))
	if features == streamedHalves {
		for _, x := range b.batches {
			x.Stage, err = b.Device.(device.Streamer).NewStage(x.N*x.Regions*x.Dim, true)
			check(err)
		}
	}
	timer := stepTimer{step: b.Step, lr: c.Optim.LR, now: time.Now}
	for i := range 2*syntheticBatches + 6 {
		x, err := b.Next()
		check(err)
		if i > 0 {
			check(timer.do(x, b.Release))
			continue
		}
		of := batchOf(x.Lengths) // of the first step, which is started call by call
		calls, err := b.Device.(cuda.Profiler).Profile(false, func() error { return timer.do(x, b.Release) })
		check(err)
		predicted, err = model.Predict(model.GPUs["h200"], of, calls)
		check(err)
	}
	check(timer.finish())
	checkCommands(t, b, n, features, func() { // of a step whose shape has been met
		x, err := b.Next()
		check(err)
		check(timer.do(x, b.Release))
		check(timer.finish())
	})
	fastest := timer.times[2*syntheticBatches]
	for _, ms := range timer.times[2*syntheticBatches:] {
		fastest = min(fastest, ms)
	}
	if b.Step.CallByCall() != "" {
		t.Errorf("steps are not recorded: %s", b.Step.CallByCall())
	}
	return fastest, predicted
}

// checkCommands checks what a step gives the GPU: its inputs at once, the rows of what stays there, one recording, and
// its results at once. Streamed features come beside them, with an event for each of the two streams.
func checkCommands(t *testing.T, b *bench, n *null.Driver, features string, step func()) {
	t.Helper()
	clear(n.Outside)
	step()
	expected := map[string]int{"upload": 1, "replay": 1, "download": 1, "record": 2, "copy_parts": 2}
	switch features {
	case featuresStreamed:
		expected["upload"], expected["record"], expected["copy"] = 2, 4, 1
	case streamedHalves:
		expected["upload"], expected["record"], expected["widen_half"] = 2, 4, 1
	}
	for _, k := range []string{"gather_table", "gather_lists"} { // of images and boxes, of words
		if gathers := n.Outside[k]; gathers > 0 && gathers <= 2 && features == featuresResident {
			expected[k] = gathers
		}
	}
	if !maps.Equal(n.Outside, expected) {
		t.Errorf("a step of %s, features %s, gives the GPU %v beside what is recorded, expected %v",
			b.Cfg.Model.Network, features, n.Outside, expected)
	}
}

// budget is what a step of full size may take.
type budget struct {
	nodes int     // of the recorded step: kernels, products, copies and fills
	mb    int     // MiB of device memory, the features of four batches included
	ms    float64 // that the model predicts for an H200; 0 in fp32
}

// budgets are those of fp32, tf32 and bf16. A change that needs more says why; one that needs less lowers them.
var budgets = map[string][3]budget{
	models.VSEPP:  {{236, 1658, 0}, {80, 1658, 1.94}, {47, 1848, 1.36}},
	models.VSRN:   {{1290, 5393, 0}, {1152, 5393, 25}, {570, 5393, 12.6}},
	models.VSEInf: {{265, 987, 0}, {109, 987, 2.34}, {113, 993, 1.55}},
	"vseinf-bert": {{410, 4808, 0}, {410, 4808, 9.29}, {412, 6445, 5.53}},
	models.SAF:    {{376, 1864, 0}, {207, 1904, 7.34}, {222, 2363, 4.43}},
	models.SGR:    {{467, 3504, 0}, {298, 3544, 12.64}, {293, 4822, 7.23}},
	models.GSMN:   {{365, 1046, 0}, {206, 1046, 2.96}, {213, 1379, 2.31}},
	models.SCAN:   {{340, 1480, 0}, {184, 1480, 4.14}, {190, 1761, 3.14}},
	models.CHAN:   {{267, 1362, 0}, {111, 1362, 3.27}, {118, 1362, 1.97}},
}

// A step of streamed features is sent them once, in the precision of the file, and little else. They take device memory
// of their size beside the input, and one kernel that widens and rounds them.
func TestStreamedBudgets(t *testing.T) {
	const features, steps = 36 * 2048 * 128, 2*syntheticBatches + 7
	for what, limit := range map[string]struct {
		bytes, mb int
		ms        float64
	}{featuresStreamed: {4 * features, 1740, 1.36}, streamedHalves: {2 * features, 1722, 1.35}} {
		c := fullSize(models.VSEPP)
		c.Device.Precision = "bf16"
		n := null.New(driver.Info{Name: "null GPU", Major: 9, Multiprocessors: 132,
			MaxSharedBytesPerBlock: 227 << 10, Together: true, Memory: 141 << 30})
		_, predicted := fullSteps(t, c, n, what)
		if sent := n.Uploaded / steps; sent < limit.bytes || sent > limit.bytes+100_000 {
			t.Errorf("%s: a step is sent %d bytes, features of %d", what, sent, limit.bytes)
		}
		if mb := n.Peak >> 20; mb > limit.mb*101/100 || mb < limit.mb*9/10 {
			t.Errorf("%s: %d MiB of device memory, the budget is %d", what, mb, limit.mb)
		}
		if ms := predicted.Sum.Predicted; ms > limit.ms*1.01 || ms < limit.ms*0.9 {
			t.Errorf("%s: a step is predicted to take %.3f ms, the budget is %.3f", what, ms, limit.ms)
		}
	}
}

// hostMS bounds the milliseconds that the host takes for a step: it measures 0.02 to 0.2, on a machine that does much
// else more.
const hostMS = 2

// A step of every network at full size stays within its budget of nodes and memory in every precision; a GPU would take
// its sizes, and the host does its part in under two milliseconds.
func TestStepBudgets(t *testing.T) {
	gpu := driver.Info{Name: "null GPU", Major: 9, Multiprocessors: 132,
		MaxSharedBytesPerBlock: 227 << 10, Together: true, Memory: 141 << 30}
	files := map[string]int{} // of kernels that a training loads
	for network, limits := range budgets {
		for i, precision := range []string{"fp32", "tf32", "bf16"} {
			limit := limits[i]
			c := fullSize(network)
			c.Device.Precision = precision
			n := null.New(gpu)
			host, predicted := fullSteps(t, c, n, featuresResident)
			if ms := predicted.Sum.Predicted; limit.ms != 0 && (ms > limit.ms*1.01 || ms < limit.ms*0.9) {
				t.Errorf("%s %s: a step is predicted to take %.3f ms, the budget is %.3f", network, precision, ms,
					limit.ms)
			}
			nodes, mb := n.Nodes(), n.Peak>>20
			if n.Recordings == 0 || n.Replays == 0 {
				t.Errorf("%s %s: %d recordings, %d replays", network, precision, n.Recordings, n.Replays)
			}
			files[network] = max(files[network], n.Modules)
			if nodes > limit.nodes || nodes < limit.nodes*9/10 {
				t.Errorf("%s %s: a step has %d nodes, the budget is %d: %v", network, precision, nodes, limit.nodes,
					n.Largest)
			}
			if mb > limit.mb*101/100 || mb < limit.mb*9/10 {
				t.Errorf("%s %s: %d MiB of device memory, the budget is %d", network, precision, mb, limit.mb)
			}
			if !(host <= hostMS) {
				t.Errorf("%s %s: the host takes %.2f ms for a step, the budget is %d", network, precision, host, hostMS)
			}
		}
	}
	for _, network := range []string{models.SCAN, models.CHAN} { // whose budgets are none of these
		for _, precision := range []string{"fp32", "tf32", "bf16"} {
			c := fullSize(network)
			c.Device.Precision, c.Train.Batch = precision, 32
			n := null.New(gpu)
			fullSteps(t, c, n, featuresResident)
			files[network] = max(files[network], n.Modules)
		}
	}
	all := try.Get(kernels.Modules())(t)
	want := fmt.Sprintf("There are %d files; a training uses at most %d", len(all), slices.Max(slices.Collect(
		maps.Values(files))))
	page := string(try.Get(os.ReadFile("../../../docs/cuda.md"))(t))
	if !strings.Contains(strings.Join(strings.Fields(page), " "), want) {
		t.Errorf("docs/cuda.md does not say %q; files by network: %v", want, files)
	}
}

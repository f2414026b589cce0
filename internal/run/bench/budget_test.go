package bench

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/device/cuda/kernels"
	"vsetrain/internal/run/config"
	"vsetrain/lab/emulator"
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

// fullSteps opens a network of full size on the driver that computes nothing, and does three steps of each batch, of
// which the second is recorded.
func fullSteps(t *testing.T, c *config.Config) (b *bench, step func() error) {
	t.Helper()
	library := emulator.Strict(t)
	b = newBench(Request{Config: c, Regions: flickrRegions, Feature: flickrFeature, Now: time.Now})
	b.opener = func() (device.Device, error) {
		return cuda.Open(cuda.Options{Driver: library, BLAS: []string{library}, Precision: c.Device.Precision})
	}
	try.Get(b.open(t.Context()))(t)
	step = func() error {
		x, err := b.Next()
		if err == nil {
			_, err = b.Step.Run(x, 1e-4, false)
		}
		return err
	}
	for range 3 * syntheticBatches {
		try.Do(t, step())
	}
	return b, step
}

// given counts what a step gives the GPU, by kernel, "product", "copy", "host copy" or "fill".
func given(t *testing.T, b *bench, step func() error) map[string]int {
	t.Helper()
	p, _ := device.As[device.Profiler](b.Device)
	all := map[string]int{}
	for _, l := range try.Get(p.Profile(step))(t) {
		name := l.Name
		if strings.HasPrefix(name, "product ") {
			name = "product"
		}
		all[name]++
	}
	return all
}

// budget is what a step of full size may take.
type budget struct {
	launches int // kernels, products, copies and fills
	mb       int // MiB of device memory, the features of four batches included
}

// budgets are for fp32, tf32 and bf16. A change that needs more says why; one that needs less lowers them.
var budgets = map[string][3]budget{
	models.VSEPP:  {{236, 1619}, {80, 1638}, {47, 1856}},
	models.VSRN:   {{1289, 3844}, {1151, 3844}, {569, 4966}},
	models.VSEInf: {{233, 789}, {109, 823}, {113, 1005}},
	"vseinf-bert": {{410, 4823}, {410, 4823}, {400, 6447}},
	models.SAF:    {{376, 1872}, {217, 1936}, {222, 2374}},
	models.SGR:    {{467, 3510}, {308, 3574}, {256, 4832}},
	models.GSMN:   {{291, 1054}, {164, 1054}, {171, 1392}},
	models.SCAN:   {{340, 1282}, {184, 1316}, {190, 1774}},
	models.CHAN:   {{235, 1039}, {111, 1063}, {117, 1359}},
}

// A step of every network at full size stays within its budget of launches and memory in every precision. Beside one
// recording it gives the GPU its inputs at once, takes the rows of what stays there, and fetches its results at once.
func TestStepBudgets(t *testing.T) {
	file, files := map[string]string{}, map[string]int{} // of a kernel; that a training loads
	for _, m := range try.Get(kernels.Modules())(t) {
		for _, e := range m.Entries {
			file[e.Name] = m.Name
		}
		files[m.Name]++
	}
	all, most := len(files), 0
	for network, limits := range budgets {
		for i, precision := range []string{"fp32", "tf32", "bf16"} {
			c, limit := fullSize(network), limits[i]
			c.Device.Precision = precision
			b, step := fullSteps(t, c)
			outside := given(t, b, step)
			expected := map[string]int{"host copy": 2, "copy_parts": 2}
			for _, k := range []string{"gather_table", "gather_lists"} { // of images and boxes, of words
				if n := outside[k]; n > 0 && n <= 2 {
					expected[k] = n
				}
			}
			if recorded, replayed := b.Step.Recordings(); !maps.Equal(outside, expected) || recorded == 0 ||
				replayed == 0 {
				t.Errorf("a step of %s in %s gives the GPU %v beside what is recorded, expected %v; %d recordings, %d "+
					"replays", network, precision, outside, expected, recorded, replayed)
			}
			b.Step.Record(false)
			within := given(t, b, step)
			launches := 0
			for name, n := range within {
				launches += n - outside[name]
			}
			resident, _ := device.As[device.Resident](b.Device)
			free, total, err := resident.FreeMemory()
			try.Do(t, err)
			if mb := int((total - free) >> 20); mb > limit.mb*101/100 || mb < limit.mb*9/10 {
				t.Errorf("%s %s: %d MiB of device memory, the budget is %d", network, precision, mb, limit.mb)
			}
			if launches > limit.launches || launches < limit.launches*9/10 {
				t.Errorf("%s %s: a step has %d launches, the budget is %d: %v", network, precision, launches,
					limit.launches, within)
			}
			launcher, _ := device.As[cuda.Launcher](b.Device)
			clear(files)
			for name, n := range launcher.Launches() {
				if n > 0 {
					files[file[name]]++
				}
			}
			most = max(most, len(files))
			b.Close()
		}
	}
	want := fmt.Sprintf("There are %d files; a training uses at most %d", all, most)
	page := string(try.Get(os.ReadFile("../../../docs/cuda.md"))(t))
	if !strings.Contains(strings.Join(strings.Fields(page), " "), want) {
		t.Errorf("docs/cuda.md does not say %q", want)
	}
	if v := emulator.Violations(t); v != "" {
		t.Errorf("the driver reports\n%s", v)
	}
}

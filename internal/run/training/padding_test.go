package training_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"vsetrain/internal/files/npy"
	"vsetrain/internal/run/config"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// padded is a world whose images have 1 to 3 regions in an array with that many places; junk is in the others.
func padded(t *testing.T, places int) string {
	t.Helper()
	dir := runtest.CopyWorld(t)
	for _, split := range []string{"train", "dev"} {
		rng := rand.New(rand.NewPCG(uint64(len(split)), 4))
		path := filepath.Join(dir, split+"_ims.npy")
		f := try.Get(npy.Open(path))(t)
		rows, regions, dim := f.Rows(), f.Shape[1], f.Shape[2]
		counts, out := make([]int64, rows), make([]float32, rows*places*dim)
		for i := range out {
			out[i] = float32(1000 + i%7*places)
		}
		row := make([]float32, regions*dim)
		for i := range rows {
			counts[i] = 1 + rng.Int64N(int64(regions))
			try.Do(t, f.ReadRow(row, i))
			copy(out[i*places*dim:], row[:int(counts[i])*dim])
		}
		try.Do(t, f.Close())
		try.Do(t, npy.WriteFloat32(path, []int{rows, places, dim}, out))
		w := try.Get(npy.Create(filepath.Join(dir, split+"_lengths.npy"), npy.I32, []int{rows}))(t)
		try.Do(t, errors.Join(w.WriteInts(counts), w.Close()))
		if places != regions { // the boxes have no more
			try.Do(t, os.Remove(filepath.Join(dir, split+"_ims_bbx.npy")))
		}
	}
	return dir
}

// How many places an array has for regions, and what is in those that are not of the image, changes no step and no
// recall of a network that takes images of different numbers of regions; the others refuse them and name those that do.
func TestPaddingChangesNoTraining(t *testing.T) {
	narrow, wide := padded(t, 3), padded(t, 5)
	for _, name := range models.Available() {
		c := runtest.TinyConfig()
		c.Model.Network, c.Model.EmbedDim, c.Model.CHAN.Heads = name, 16, 2
		c.Model.TextEncoder = "bigru"
		if !slices.Contains(c.Model.Traits().TextEncoders, "bigru") {
			c.Model.TextEncoder = "gru"
		}
		c.Device.Precision, c.Train.Epochs, c.Data.Dir = "fp64", 1, narrow
		if !c.Model.Traits().Counts {
			runtest.Refuses(t, c, "images with different numbers of regions (train_lengths.npy), which network "+name+
				" cannot tell apart; choose one of vseinf, scan, chan, or remove that file")
			continue
		}
		for variant, change := range map[string]func(*config.Config){
			"": func(*config.Config) {},
			"without size augmentation": func(c *config.Config) {
				c.Model.VSEInf.SizeAugment, c.Model.CHAN.SizeAugment, c.Model.SCAN.Attention = false, false, "i2t"
			},
			"micro-batches": func(c *config.Config) { c.Train.MicroBatch = 5 },
		} {
			if variant == "micro-batches" && name != models.VSEInf {
				continue
			}
			run := func(dir string) (losses []float64, recalls []string) {
				c := *c
				change(&c)
				c.Data.Dir = dir
				w := runtest.Watch(t, &c)
				for _, v := range w.Validations {
					recalls = append(recalls, fmt.Sprint(v.Metrics))
				}
				return w.Losses, recalls
			}
			a, recallsA := run(narrow)
			b, recallsB := run(wide)
			if len(a) == 0 || !slices.Equal(recallsA, recallsB) {
				t.Errorf("%s %s: recalls %v, and %v", name, variant, recallsA, recallsB)
			}
			for i := range a {
				if !(math.Abs(a[i]-b[i]) <= 1e-9*a[i]) {
					t.Fatalf("%s %s: step %d: loss %.12g, with more places %.12g", name, variant, i, a[i], b[i])
				}
			}
		}
	}
}

// On a GPU they train and validate as on the CPU, whether features stay there or are streamed.
func TestPaddingOnAGPU(t *testing.T) {
	wide := padded(t, 5)
	runtest.OnEmulator(t, true)
	for _, name := range models.NamesWhere(func(t models.Traits) bool { return t.Counts }) {
		c := runtest.TinyConfig()
		c.Model.Network, c.Model.TextEncoder, c.Model.CHAN.Heads, c.Data.Dir = name, "bigru", 2, wide
		c.Train.MaxSteps, c.Train.ValStep = 2, 2
		run := func() (losses []float64, mean float64) {
			w := runtest.Watch(t, c)
			return w.Losses, w.Validations[0].Metrics.I2T.MeanR
		}
		c.Device.Kind = "cpu"
		want, mean := run()
		c.Device.Kind = "cuda"
		for _, resident := range []string{"always", "never"} {
			c.Device.Resident = resident
			got, gotMean := run()
			if len(got) != 2 || !(math.Abs(got[1]-want[1]) <= 1e-4*want[1]) || math.Abs(gotMean-mean) > 0.1 {
				t.Errorf("%s, device.resident %s: losses %v, mean rank %v; on the CPU %v, %v", name, resident, got,
					gotMean, want, mean)
			}
		}
	}
}

package bench

import (
	"math"
	"testing"
	"time"

	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// profileOf is the profile of a step of a tiny network, and what timing whole steps says of it.
func profileOf(t *testing.T, kind string) (*Profiled, Report) {
	t.Helper()
	c := runtest.TinyConfig()
	runtest.SetNetwork(c, models.VSEPP)
	c.Device.Kind, c.Data.Dir = kind, ""
	c.Train.Batch, c.Model.EmbedDim, c.Model.WordDim = 4, 8, 4
	r := Request{Config: c, Steps: syntheticBatches, Regions: 3, Feature: 16, Vocab: 50, Now: time.Now}
	return try.Get(Profile(t.Context(), r))(t), try.Get(Run(t.Context(), r))(t)
}

// A profile has each kernel of a step with its bytes, operations, time and share of the limits, and their sum. On a GPU
// the times are the times of what it was given for each kernel; the work is the same.
func TestProfile(t *testing.T) {
	own, whole := profileOf(t, "cpu")
	if len(own.Launches) > 0 {
		t.Errorf("launches of the processor: %v", own.Launches)
	}
	runtest.OnEmulator(t, true)
	gpu, _ := profileOf(t, "cuda")
	for _, p := range []*Profiled{own, gpu} {
		if !(p.Memory > 0 && p.Products > 0 && p.StepMS > 0) {
			t.Errorf("%s: %v, step %v ms", p.Device, p.Limits, p.StepMS)
		}
		sum := Timed{}
		for i, k := range p.Kernels {
			memory, products := 1e3*k.Bytes/p.Memory, 1e3*k.Flop/p.Products
			least := k.Share * k.MS // the mean over calls of the longer of both
			if k.Calls < 1 || !(k.Bytes > 0 && k.MS > 0) || i > 0 && k.MS > p.Kernels[i-1].MS ||
				least < (1-1e-6)*max(memory, products) || least > (1+1e-6)*(memory+products) {
				t.Errorf("%s: %+v", p.Device, k)
			}
			sum.Bytes, sum.Flop, sum.MS = sum.Bytes+k.Bytes, sum.Flop+k.Flop, sum.MS+k.MS
		}
		if s := p.Sum; s.Calls < len(p.Kernels)/2 || math.Abs(s.Bytes-sum.Bytes) > 1 || math.Abs(s.Flop-sum.Flop) > 1 ||
			math.Abs(s.MS-sum.MS) > 1e-6*sum.MS || p.StepMS < s.MS {
			t.Errorf("%s: the sum is %+v, of the kernels %+v, the step %v ms", p.Device, s, sum, p.StepMS)
		}
	}
	// Of a GPU they are the numbers for a bound of lengths.
	if math.Abs(own.Sum.Flop-1e9*whole.GFlop) > 1 || !(gpu.Sum.Flop >= own.Sum.Flop) {
		t.Errorf("%v operations on the processor, of whole steps %v, %v on the GPU", own.Sum.Flop, 1e9*whole.GFlop,
			gpu.Sum.Flop)
	}
	known, of := map[string]float64{}, map[string]float64{}
	for _, k := range gpu.Kernels {
		known[k.Name] = k.MS
	}
	for _, l := range gpu.Launches {
		if of[l.Kernel] += l.MS; l.Calls < 1 || l.Kernel != "" && known[l.Kernel] == 0 {
			t.Errorf("%+v", l)
		}
	}
	for name, ms := range known {
		if math.Abs(of[name]-ms) > 1e-6*ms {
			t.Errorf("%s takes %v ms, what was launched for it %v", name, ms, of[name])
		}
	}
	if of[""] == 0 {
		t.Error("nothing is copied between the kernels")
	}
}

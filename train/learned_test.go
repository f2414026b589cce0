package train

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/system/options"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
)

// learningStep is VSE++ with 8 dimensions and a loss that learns scalars.
func learningStep(t *testing.T, dev device.Device, l loss.Options, opt OptimOptions) *Step {
	t.Helper()
	o := models.DefaultOptions()
	o.EmbedDim, o.WordDim = 8, 4
	m := try.Get(NewModel(dev, o, tinyDims, &l))(t)
	m.Init(3, nil)
	return try.Get(NewStep(m, l, opt))(t)
}

// The ranges are the same as in the golden cases, on a device of each precision; infinite ends leave a value as it is.
func TestGoldenClamp(t *testing.T) {
	var file struct{ Cases []json.RawMessage }
	golden.Load(t, "losses_more.json", &file)
	n := 0
	for _, raw := range file.Cases {
		var kind struct {
			Type string `json:"loss_type"`
		}
		try.Do(t, json.Unmarshal(raw, &kind))
		if kind.Type != "clamp" {
			continue
		}
		var c struct {
			Name     string
			Config   struct{ Low, High float64 }
			Inputs   struct{ Before []float64 }
			Expected struct{ After []float64 }
		}
		try.Do(t, json.Unmarshal(raw, &c))
		n++
		for precision, tol := range map[string]golden.Tolerance{cpu.FP64: golden.FP64, cpu.FP32: golden.FP32} {
			dev := newDevice(t, precision)
			in := try.Get(graph.NewInstance(dev, []graph.ParamSpec{{Name: "x", Shape: []int{1},
				Within: &[2]float64{c.Config.Low, c.Config.High}}}))(t)
			limits := try.Get(newLimits(dev, in.Params))(t)
			var after []float64
			for _, x := range c.Inputs.Before {
				dev.UploadDoubles(in.Params.Value("x"), []float64{x})
				limits[0].apply(dev)
				after = append(after, doubles(dev, in.Params.Value("x"))...)
			}
			golden.Close(t, c.Name+" "+precision, after, c.Expected.After, tol)
		}
	}
	if n == 0 {
		t.Error("no case of a clamp")
	}
}

// A learned scalar follows Adam without weight decay, is clipped with all others, and stays in its range; a step that
// is saved and restored goes on to the bit.
func TestLearnedScalarsAreParameters(t *testing.T) {
	for _, precision := range []string{cpu.FP64, cpu.FP32} {
		l := loss.DefaultOptions()
		l.Name = "siglip"
		opt := adamw(1e-2)
		opt.EMA = 0.5
		s := learningStep(t, newDevice(t, precision), l, opt)
		before := Learned(s)
		if before["bias"] != -10 {
			t.Fatalf("%s: starts with %v", precision, before)
		}
		r := run(t, s, tinyBatch(1, 6, 7))
		// Adam's first step is the rate times the sign of the gradient; all matches lie below the bias.
		if got := Learned(s)["bias"] + 10; !(got > 0.0099 && got < 0.0101) {
			t.Errorf("%s: the first step moved the bias by %v, want 0.01 without weight decay", precision, got)
		}
		var sum float64
		for _, g := range doubles(s.model.Instance.Dev, s.model.Instance.Params.Grads()) {
			sum += g * g
		}
		if d := r.GradNorm*r.GradNorm/sum - 1; d < -1e-5 || d > 1e-5 {
			t.Errorf("%s: the norm %v leaves out what the loss learns: Σ g² is %v", precision, r.GradNorm, sum)
		}
		path := saved(t, s, State{})
		again := learningStep(t, newDevice(t, precision), l, opt)
		c := try.Get(models.OpenCheckpoint(path))(t)
		try.Do(t, again.RestoreState(c, &State{}))
		c.Close()
		for i := range 3 {
			b := tinyBatch(uint64(i)+5, 6, 7)
			run(t, s, b)
			run(t, again, b)
		}
		if i := differ(append(numbers(s), doubles(s.model.Instance.Dev, s.opt.average.values)...),
			append(numbers(again), doubles(again.model.Instance.Dev, again.opt.average.values)...)); i >= 0 {
			t.Errorf("%s: element %d differs behind a restored step", precision, i)
		}
	}
}

// A temperature that would leave its range is brought back by every update, and weights whose temperature lies outside
// are refused.
func TestLearnedTemperatureStaysInItsRange(t *testing.T) {
	l := loss.DefaultOptions()
	l.Name = "infonce"
	keys := l.Own.Sections()
	section := reflect.ValueOf(&l.Own).Elem().Index(slices.Index(keys, "infonce"))
	learn, _ := section.Elem().Type().FieldByName("Learn")
	options.Set(reflect.ValueOf(&l.Own).Elem(), append([]int{slices.Index(keys, "infonce")}, learn.Index...),
		reflect.ValueOf("temperature"))
	s := learningStep(t, newDevice(t, cpu.FP32), l, adam(1))
	for i := range 4 {
		run(t, s, tinyBatch(uint64(i), 6, 7))
		if x := Learned(s)["temperature"]; x < 0.00999999 || x > 0.1000001 {
			t.Errorf("after step %d the temperature is %v", i+1, x)
		}
	}
	s.model.Instance.Dev.UploadDoubles(s.model.Instance.Params.Value("loss.temperature"), []float64{0.5})
	c := try.Get(models.OpenCheckpoint(saved(t, s, State{})))(t)
	defer c.Close()
	err := c.Restore(learningStep(t, newDevice(t, cpu.FP32), l, adam(1)).model)
	try.Fails(t, err, "loss.temperature is 0.5, expected a number from 0.01 to 0.1")
}

// A loss with a memory is told the place of a batch in its epoch, and the size of a full batch.
func TestLossesKnowThePlaceOfABatch(t *testing.T) {
	matches := func(perEpoch int) float64 { // that FNE has counted in the last epoch of 20 steps
		s := tinyStep(t, newDevice(t, cpu.FP64), "fne", 0)
		for i := range 20 {
			b := tinyBatch(uint64(i), 6, 7)
			b.Epoch, b.Iter = i/perEpoch, i%perEpoch
			run(t, s, b)
		}
		return (*s.memory.State()["sums"])[1]
	}
	if one, all := matches(1), matches(20); all <= one || one > 6 {
		t.Errorf("%v matches in an epoch of one step, %v in one of 20", one, all)
	}
	cost := func(full int) float64 { // of DECL after 200 steps, which leave a full batch five hinges less
		s := tinyStep(t, newDevice(t, cpu.FP64), "decl", 0)
		s.opt.steps = 200
		b := tinyBatch(1, 9, 7)
		b.Full = full
		return run(t, s, b).Loss
	}
	if smaller, whole := cost(13), cost(9); smaller == whole {
		t.Errorf("the last batch of an epoch costs %v, as one that is full", whole)
	}
}

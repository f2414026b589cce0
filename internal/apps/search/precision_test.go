package search

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/gemm"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/files/safetensors"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// inPrecision are the options of a run on the CPU.
func inPrecision(run, precision string) Options {
	d := device.DefaultOptions()
	d.Kind, d.Threads, d.Precision = "cpu", 2, precision
	return Options{Checkpoints: []string{run}, Device: d, wait: time.Minute}
}

// needBF16 skips a test where the processor does not multiply bf16.
func needBF16(t *testing.T) {
	t.Helper()
	pool := par.New(1)
	defer pool.Close()
	if try.Get(gemm.New(pool, gemm.Options{}))(t).BF16Name() == "emulated" {
		t.Skip("this processor has no instructions for bf16")
	}
}

// ask returns what a batch of one query finds.
func ask(t *testing.T, x *Index, q Query) []Hit {
	t.Helper()
	r := x.Batch(t.Context(), []Query{q})
	try.Do(t, r[0].Err)
	return r[0].Hits
}

// Typed queries are embedded in bf16 where M-Recall changes by less than 0.1, which the cache tells at the second
// start, and in fp32 elsewhere. Everything else is computed in fp32.
func TestQueriesInBF16(t *testing.T) {
	needBF16(t)
	world := makeWorld(t, 1)
	run := trainRun(t, world, func(m *models.Options) { m.Network, m.TextEncoder = models.VSEInf, "bigru" })
	o := inPrecision(run, device.PrecisionAuto)
	o.Cache = filepath.Join(t.TempDir(), "kept")
	prepared := func(o Options) *Index {
		x := open(t, o)
		try.Do(t, x.PrepareBatches(t.Context()))
		return x
	}
	measured := prepared(o).Info().Query.Change
	if measured == nil {
		t.Fatal("nothing was measured")
	}
	kept := try.Get(filepath.Glob(filepath.Join(o.Cache, "*-dev-bf16-*")))(t)
	if len(kept) != 1 {
		t.Fatalf("the cache has %q", kept)
	}
	f := try.Get(safetensors.Open(kept[0]))(t)
	key := f.Metadata()[cacheKey]
	f.Close()

	single, half := prepared(inPrecision(run, "fp32")), prepared(inPrecision(run, "bf16"))
	query := Query{Text: single.Caption(7), K: 12}
	vector, _, err := half.CaptionRows(t.Context(), []string{query.Text})
	try.Do(t, err)
	want := map[string][]Hit{"fp32": ask(t, single, query), "bf16": ask(t, single, Query{Vector: vector, K: 12})}
	if slices.Equal(want["fp32"], want["bf16"]) {
		t.Fatal("the test wants queries that bf16 changes")
	}
	row, _, err := single.CaptionRows(t.Context(), []string{query.Text})
	try.Do(t, err)
	for change, name := range map[float32]string{0.09: "bf16", -0.09: "bf16", 0.11: "fp32", -0.11: "fp32"} {
		try.Do(t, writeCache(kept[0], key, []safetensors.Tensor{
			safetensors.FromFloat32s("change", []int{1}, []float32{change})}))
		x := prepared(o)
		p := x.Info().Query
		if p.Name != name || p.Change == nil || math.Abs(*p.Change-float64(change)) > 1e-6 ||
			!strings.Contains(p.Why, fmt.Sprintf("%+.2f", change)) {
			t.Errorf("change %v: %+v, want %s", change, p, name)
		}
		text, err := x.Text(t.Context(), query.Text, 12)
		try.Do(t, err)
		if got := ask(t, x, query); !slices.Equal(got, want[name]) || !slices.Equal(text.Hits, want[name]) {
			t.Errorf("change %v: %v, alone %v, want %v", change, got, text.Hits, want[name])
		}
		rows, _, err := x.CaptionRows(t.Context(), []string{query.Text})
		if err != nil || !slices.Equal(rows, row) {
			t.Errorf("change %v: embeddings that are asked for are not those of fp32, %v", change, err)
		}
	}
}

// A reload keeps the choice, and the network outlives the earlier index.
func TestRenewKeepsPrecision(t *testing.T) {
	needBF16(t)
	world := makeWorld(t, 1)
	run := trainRun(t, world, func(*models.Options) {})
	query := Query{Text: open(t, inPrecision(run, "fp32")).Caption(7), K: 11}
	try.Do(t, os.Remove(filepath.Join(world, "test_caps.txt"))) // a gallery has images alone
	x := try.Get(Open(inPrecision(run, device.PrecisionAuto)))(t)
	try.Do(t, x.PrepareBatches(t.Context()))
	q := x.members[0].(*embedder).bf16
	if q.network == nil { // the change of so small a split is large, or none
		q.network = try.Get(x.members[0].common().Copy(inPrecision(run, "bf16").Device, ""))(t)
		q.chosen.Store(&QueryPrecision{Name: "bf16"})
	}
	before := ask(t, x, query)
	worst := x.Image(before[10].Index).ID
	try.Do(t, data.Amend(t.Context(), x.Info().Data, "test", data.Change{Removed: []string{worst}}, nil))
	next, _, err := Renew(t.Context(), x)
	try.Do(t, errors.Join(err, x.Close()))
	after := ask(t, next, query)
	for i := range 10 {
		if after[i].Score != before[i].Score {
			t.Errorf("hit %d: %v, before %v", i, after[i], before[i])
		}
	}
	if p := next.Info().Query; p.Name != "bf16" {
		t.Errorf("%+v", p)
	}
	try.Do(t, next.Close())
}

// A choice that takes long goes on while queries are answered, and tells its outcome; an index can be closed before.
func TestChoiceGoesOn(t *testing.T) {
	needBF16(t)
	o := inPrecision(trainRun(t, makeWorld(t, 1), func(*models.Options) {}), device.PrecisionAuto)
	told := make(chan QueryPrecision, 1)
	o.wait, o.Chosen = 1, func(p QueryPrecision) { told <- p }
	x := open(t, o)
	if p := x.Info().Query; p.Name != "fp32" || p.Why != "until recalls in bf16 are known" {
		t.Errorf("%+v", p)
	}
	try.Do(t, x.PrepareBatches(t.Context()))
	query := Query{Text: x.Caption(7), K: 3}
	ask(t, x, query)
	select {
	case p := <-told:
		if p.Change == nil || p != x.Info().Query {
			t.Errorf("told %+v, says %+v", p, x.Info().Query)
		}
	case <-time.After(time.Minute):
		t.Fatal("nothing was chosen")
	}
	ask(t, x, query)

	x = try.Get(Open(o))(t)
	choosePrecision(x)
	try.Do(t, x.Close())
}

// The change is the largest change of all recalls of the dev split, in points: of captions by the other network with
// the images of the index.
func TestRecallChange(t *testing.T) {
	world := makeWorld(t, 1)
	run := trainRun(t, world, func(*models.Options) {})
	devs := map[string]*embedder{}
	for name, run := range map[string]string{"own": run,
		"other": trainRun(t, world, func(m *models.Options) { m.Network, m.TextEncoder = models.VSEInf, "bigru" })} {
		o := inPrecision(run, "fp32")
		o.Split = "dev"
		devs[name] = open(t, o).members[0].(*embedder)
	}
	images := try.Get(devs["own"].imageRows(t.Context()))(t)
	recall := func(captions *embedder) float64 {
		rows := try.Get(captions.captionRows(t.Context()))(t)
		s := try.Get(eval.ScoreEmbeddings(t.Context(), captions.pool, devs["own"].Runner.Embeds, images, rows))(t)
		return try.Get(eval.Measure(captions.pool, s, captions.Split.Groups()))(t).MRecall
	}
	m := devs["own"]
	got, err := measureChange(t.Context(), m.Network, devs["other"].Network, m.opt)
	want := recall(devs["other"]) - recall(m)
	if err != nil || math.Abs(got-want) > 1e-4 || math.Abs(want) < 1 {
		t.Errorf("recalls change by %v, %v; want %v", got, err, want)
	}
}

// Auto is fp32, and says why, where recalls cannot be measured or bf16 is not faster.
func TestQueriesInFP32(t *testing.T) {
	auto := func(o Options) Options {
		o.Device.Precision, o.wait = device.PrecisionAuto, time.Minute
		return o
	}
	both := optionsOf("vseinf", "vsrn")
	both.Data = filepath.Join(fixtureOf("vseinf"), "data")
	list := optionsOf("gsmn")
	list.Shortlist, list.Depth = checkpointOf("vsepp"), 5
	first := both
	first.Checkpoints, first.Shortlist = both.Checkpoints[:1], both.Checkpoints[1]
	order := inPrecision(trainRun(t, makeWorld(t, 1), func(m *models.Options) { m.VSEPP.Measure = "order" }), "fp32")
	slow := optionsOf("vsepp")
	slow.BLAS = "generic"
	const inner = "auto takes bf16 only where a score is the inner product of two embeddings of one network"
	for _, c := range []struct {
		Options
		why string
	}{{auto(optionsOf("vseinf")), "data has no split dev, whose recalls would tell"}, {auto(both), inner},
		{auto(list), inner}, {auto(first), inner}, {auto(order), inner}, {auto(slow), "bf16 no faster"},
		{optionsOf("vsepp"), "chosen by the user"}} {
		x, why := open(t, c.Options), c.why
		try.Do(t, x.PrepareBatches(t.Context()))
		if p := x.Info().Query; p.Name != "fp32" || p.Change != nil || !strings.Contains(p.Why, why) {
			t.Errorf("%+v, want %s", p, why)
		}
	}
}

// A GPU that has units for bf16 is asked for them.
func TestQueriesOnGPU(t *testing.T) {
	path := emulator.Library(t)
	t.Setenv("VSETRAIN_CUDA_DRIVER", path)
	t.Setenv("VSETRAIN_CUBLAS", path)
	o := inPrecision(trainRun(t, makeWorld(t, 1), func(*models.Options) {}), device.PrecisionAuto)
	o.Device.Kind = "cuda"
	x := open(t, o)
	choosePrecision(x)
	m := x.members[0].(*embedder)
	if p, n := x.Info().Query, m.bf16.network; p.Change == nil || (n != nil) != (p.Name == "bf16") ||
		n != nil && !strings.HasSuffix(n.Model.Instance.Dev.Name(), "bf16") {
		t.Errorf("%+v", p)
	}
	ask(t, x, Query{Text: x.Caption(7), K: 3})
}

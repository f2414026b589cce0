package train

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/device/ranks"
	"vsetrain/lab/devicetest"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
)

// sharded is what a loader brings a rank: pairs rank, rank + ranks, … of a batch, and all of its captions.
func sharded(b *data.Batch, rank, ranks int) *data.Batch {
	if ranks == 1 {
		return b
	}
	all := *b
	b.Rank, b.Ranks = rank, ranks
	b.N, b.Features, b.Boxes, b.Counts = 0, nil, nil, nil
	first := 0
	for i := range all.N {
		rows := all.Regions
		if all.Counts != nil {
			rows = int(all.Counts[i])
		}
		if i%ranks == rank {
			b.N++
			b.Features = append(b.Features, all.Features[first*all.Dim:(first+rows)*all.Dim]...)
			if all.Boxes != nil {
				b.Boxes = append(b.Boxes, all.Boxes[i*4*all.Regions:(i+1)*4*all.Regions]...)
			}
			if all.Counts != nil {
				b.Counts = append(b.Counts, all.Counts[i])
			}
		}
		first += rows
	}
	if all.Counts != nil {
		b.MostRegions = slices.Max(all.Counts)
	}
	return b
}

// lossCases are an embedder and a scorer of pairs with every loss.
func lossCases(t testing.TB) (all []recordedCase) {
	for _, name := range loss.Names() {
		for _, network := range []string{models.VSEPP, models.SGR} {
			step := func(d device.Device) *Step {
				l := loss.DefaultOptions()
				if l.Name = name; l.WarmupEpochs == 0 {
					l.WarmupEpochs = 2
				}
				o := published(t, network)
				o.SGRAF.SimDim = 8
				m := try.Get(NewModel(d, o, tinyDims, &l))(t)
				m.Init(3, nil)
				return try.Get(NewStep(m, l, adam(1e-2)))(t)
			}
			all = append(all, recordedCase{network + " " + name, 3, 1e-2, step, func(i int) *data.Batch {
				b := shorten(tinyBatch(uint64(i), 7, 8), uint64(i), false)
				for i := range int32(b.N) {
					b.Indices = append(b.Indices, 3*i)
				}
				return b
			}})
		}
	}
	return all
}

// moment is a step of one rank with a whole batch, in float64: what it starts with, and what comes of it.
type moment struct {
	start, scores []float64
	end           []float64 // what it leaves
	result        StepResult
	gradients     map[string][]float64
	state         []float64 // running statistics
}

// alone are the first steps of a case on one rank.
func alone(t testing.TB, c recordedCase, steps int) (all []moment) {
	s := c.step(openCPU(t, cpu.Options{Threads: 1, Precision: cpu.FP64}))
	s.factorFrom = math.MaxInt
	dev, p := s.model.Instance.Dev, s.model.Instance.Params
	for i := range steps {
		m := moment{start: flat(s), gradients: map[string][]float64{}}
		var err error
		if m.result, err = s.Run(c.batch(i), c.lr, i == 1); err != nil {
			t.Fatalf("%s alone: %v", c.name, err)
		}
		m.scores, m.state = doubles(dev, s.last.vm.View(s.last.scores)), doubles(dev, p.State())
		for _, spec := range p.Specs {
			if !spec.State {
				m.gradients[spec.Name] = gradient(s, spec.Name)
			}
		}
		m.end = flat(s)
		all = append(all, m)
	}
	return all
}

// flat are the parameters, statistics and moments of a step. All ranks call it; the gradients are lost.
func flat(s *Step) (x []float64) {
	whole(s, func() {
		if s.ranks != nil {
			s.ranks.complete()
			s.opt.bring()
		}
		for _, v := range stateOf(s) {
			x = append(x, doubles(s.model.Instance.Dev, v)...)
		}
	})
	return x
}

// whole calls do while the moments of all ranks have room.
func whole(s *Step, do func()) {
	if err := s.opt.open(); err != nil {
		panic(err)
	}
	do()
	s.opt.close()
}

func stateOf(s *Step) []device.View {
	p := s.model.Instance.Params
	m, v := s.opt.moments()
	return []device.View{p.Values(), p.State(), m, v}
}

// asOne compares steps of a rank with the steps of one rank, from the same parameters each. What follows from a sum in
// another order may be off by rounding alone; scores from embeddings without batch norm are the same bits.
func asOne(t testing.TB, d device.Device, c recordedCase, want []moment) {
	rank, ranks := device.RankOf(d)
	s := c.step(d)
	s.factorFrom = math.MaxInt // of one rank: its gradients are compared
	if ranks > 2 {             // many parts, and matrices that are divided
		divide(t, s, 64)
	}
	p := s.model.Instance.Params
	for i, m := range want {
		fail := func(format string, args ...any) {
			t.Errorf("%s, rank %d of %d, step %d: %s", c.name, rank, ranks, i, fmt.Sprintf(format, args...))
		}
		start := m.start
		whole(s, func() {
			for _, v := range stateOf(s) {
				s.model.Instance.Dev.UploadDoubles(v, start[:v.N])
				start = start[v.N:]
			}
			s.opt.take()
		})
		got, err := s.Run(sharded(c.batch(i), rank, ranks), c.lr, i == 1)
		if err != nil {
			fail("%v", err)
			return
		}
		for what, v := range map[string][2]float64{"loss": {got.Loss, m.result.Loss},
			"captioning": {got.LossCaptioning, m.result.LossCaptioning}, "norm": {got.GradNorm, m.result.GradNorm}} {
			if !(math.Abs(v[0]-v[1]) <= 1e-10*math.Abs(v[1])) {
				fail("%s %.15g, %.15g alone", what, v[0], v[1])
			}
		}
		scores := doubles(s.model.Instance.Dev, s.last.vm.View(s.last.scores))
		for k, v := range m.scores {
			if len(m.state) == 0 && scores[k] != v || !(math.Abs(scores[k]-v) <= 1e-10) {
				fail("score %d is %.17g, %.17g alone", k, scores[k], v)
				break
			}
		}
		if off := distance(doubles(s.model.Instance.Dev, p.State()), m.state); !(off <= 1e-10*(1+norm(m.state))) {
			fail("running statistics are off by %v of %v", off, norm(m.state))
		}
		for k := range s.opt.parts {
			s.opt.gather(&s.opt.parts[k], p.Grads())
		}
		device.Do(s.model.Instance.Dev, device.Wait{})
		for name, g := range m.gradients {
			if off := distance(gradient(s, name), g); !(off <= 1e-10*m.result.GradNorm) {
				fail("gradient of %s is off by %v of %v", name, off, norm(g))
			}
		}
		for k, v := range flat(s) { // Adam divides small gradients by their size
			if !(math.Abs(v-m.end[k]) <= 1e-6*c.lr) {
				fail("value %d of the state is %v, %v alone", k, v, m.end[k])
				break
			}
		}
	}
}

// Ranks that divide a batch do the steps of one rank with the whole batch: loss, scores, every gradient, statistics.
// Networks are divided in pieces of unequal sizes too; every loss once.
func TestRanksTrainAsOne(t *testing.T) {
	networks := recordedCases(t)
	for k, c := range append(networks, lossCases(t)...) {
		t.Run(c.name, func(t *testing.T) {
			want := alone(t, c, 2)
			for n := 2; n <= 4; n++ {
				if k < len(networks) && n == 3 || k%3 == n%3 {
					devicetest.Ranks(n, func(w *devicetest.World) {
						asOne(t, &devicetest.Late{Device: rankedCPU(t, w, cpu.FP64)}, c, want)
					})
				}
			}
		})
	}
}

// With parts of few parameters, each gathered before it is read and summed as soon as it has its gradients, a step is
// the same whether gathers and sums come at once or as late as they may; and in every network something is computed
// beside them.
func TestRanksOverlap(t *testing.T) {
	for _, c := range recordedCases(t) {
		var at [2][]float64
		for late := range at {
			devicetest.Ranks(2, func(w *devicetest.World) {
				d := &devicetest.Late{Device: rankedCPU(t, w, cpu.FP32)}
				s := c.step(d.Device)
				if late == 1 {
					s = c.step(d)
				}
				divide(t, s, 64)
				rank, ranks := w.Rank()
				for i := range 3 {
					if _, err := s.Run(sharded(c.batch(i), rank, ranks), c.lr, false); err != nil {
						t.Errorf("%s: %v", c.name, err)
						return
					}
					if late == 0 {
						s.ranks.complete()
					}
				}
				if n := len(s.opt.parts); n < 5 || d.BesideSums < 5*late || d.BesideGathers < 5*late {
					t.Errorf("%s: %d parts, %d kernels beside their sums, %d beside gathers", c.name, n, d.BesideSums,
						d.BesideGathers)
				}
				if n := len(s.last.divided); strings.HasPrefix(c.name, models.VSEPP) != (n == 1) {
					t.Errorf("%s: %d gradients are divided", c.name, n)
				}
				if x := flat(s); rank == 0 {
					at[late] = x
				}
			})
		}
		if at := differ(at[0], at[1]); at >= 0 {
			t.Errorf("%s: value %d of the state differs", c.name, at)
		}
	}
}

// Three ranks with many parts, and a matrix that is divided, store what one, two and four go on from: the same bits,
// and the same next step but for rounding.
func TestRanksResumeInParts(t *testing.T) {
	path := ""
	ranked := func(w *devicetest.World) *Step {
		s := tinyStep(t, rankedCPU(t, w, cpu.FP64), loss.LMH, math.MaxInt)
		divide(t, s, 64)
		return s
	}
	next := func(s *Step, w *devicetest.World, i uint64) float64 {
		rank, ranks := w.Rank()
		r, err := s.Run(sharded(tinyBatch(i, 7, 8), rank, ranks), 1e-2, false)
		if err != nil {
			t.Error(err)
		}
		return r.GradNorm
	}
	var stored, end []float64
	var norm float64
	devicetest.Ranks(3, func(w *devicetest.World) {
		s := ranked(w)
		next(s, w, 1)
		next(s, w, 2)
		err := s.ranks.saving(func() error {
			if s.ranks.Rank > 0 {
				return nil
			}
			path = saved(t, s, State{})
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		before, n := flat(s), next(s, w, 3)
		if after := flat(s); s.ranks.Rank == 0 {
			stored, norm, end = before, n, after
		}
	})
	for _, n := range []int{1, 2, 4} {
		devicetest.Ranks(n, func(w *devicetest.World) {
			s, st := ranked(w), &State{}
			if rank, _ := w.Rank(); rank == 0 {
				c, err := models.OpenCheckpoint(path)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				if err := s.RestoreState(c, st); err != nil {
					t.Error(err)
				}
			}
			if err := BroadcastState(s, st); err != nil {
				t.Error(err)
			}
			if at := differ(flat(s), stored); at >= 0 {
				t.Errorf("%d ranks begin with another value %d than three stored", n, at)
			}
			if got := next(s, w, 3); !(math.Abs(got-norm) <= 1e-10*norm) {
				t.Errorf("%d ranks: norm %v, with three %v", n, got, norm)
			}
			for i, v := range flat(s) {
				if !(math.Abs(v-end[i]) <= 1e-8) {
					t.Errorf("%d ranks: value %d is %v, with three %v", n, i, v, end[i])
					break
				}
			}
		})
	}
}

// Gradients that ranks send as bf16 are half the values, and off by no more than their rounding; training goes on as
// well, and all ranks come to the same bits. One rank sends none.
func TestRanksReduceDtype(t *testing.T) {
	var gradients [2][]float64
	var losses, norms [2]float64
	var values [2]int
	for i, dtype := range []string{"fp32", BF16} {
		devicetest.Ranks(3, func(w *devicetest.World) {
			s := tinyStep(t, rankedCPU(t, w, cpu.FP32), loss.LMH, 0)
			s.opt.bf16 = dtype == BF16
			rank, ranks := w.Rank()
			for k := range 20 {
				r, err := s.Run(sharded(tinyBatch(1, 7, 8), rank, ranks), 1e-3, false)
				if err != nil {
					t.Error(err)
					return
				}
				for j := 0; j < len(s.opt.parts) && k == 0; j++ {
					values[i] = w.Values
					s.opt.gather(&s.opt.parts[j], s.model.Instance.Params.Grads())
				}
				if rank == 0 && k == 0 {
					gradients[i], norms[i] = doubles(s.model.Instance.Dev, s.model.Instance.Params.Grads()), r.GradNorm
				}
				if rank == 0 {
					losses[i] = r.Loss
				}
			}
			if err := s.ranks.Compare(); err != nil {
				t.Error(err)
			}
		})
	}
	if off := distance(gradients[0], gradients[1]); off == 0 || off > 3*norms[0]/256 {
		t.Errorf("gradients in bf16 are off by %v of %v", off, norms[0])
	}
	if off := math.Abs(losses[1]/losses[0] - 1); off == 0 || off > 0.01 {
		t.Errorf("losses after 20 steps: %v", losses)
	}
	if n := values[0] - values[1]; n < len(gradients[0])/2-32 || n > len(gradients[0])/2+32 {
		t.Errorf("values sent: %v for %d gradients", values, len(gradients[0]))
	}
}

// divide divides what a step trains into parts of at most that many parameters, where they are no larger.
func divide(t testing.TB, s *Step, bucket int) {
	own := try.Get(newShard(s.model.Instance.Dev, s.model.Instance.Params, bucket))(t)
	s.opt.shard = own
	if s.ranks != nil {
		s.ranks.shard = own
	}
}

// rankedCPU is a device of a rank.
func rankedCPU(t testing.TB, w ranks.World, precision string) device.Device {
	return try.Get(ranks.New(openCPU(t, cpu.Options{Threads: 1, Precision: precision}), w))(t)
}

// After a step the average of the weights, and what a loss learns, equal one rank's, whichever rank updates them.
func TestRanksAverageAndLearn(t *testing.T) {
	l := loss.DefaultOptions()
	l.Name = "siglip"
	o := adam(1e-2)
	o.EMA = 0.5
	var learned []map[string]float64
	var average [][]float64
	train := func(d device.Device, rank, ranks int) {
		s := learningStep(t, d, l, o)
		if ranks > 1 {
			divide(t, s, 64)
		}
		for i := range uint64(3) {
			if ranks > 1 { // all learn in one step that one wants to stop
				s.ranks.WantStop(rank == 1 && i == 1)
			}
			r, err := s.Run(sharded(tinyBatch(i, 7, 8), rank, ranks), 1e-2, false)
			if err != nil || r.Stop != (ranks > 1 && i == 1) {
				t.Errorf("rank %d of %d, step %d: stops %t, %v", rank, ranks, i, r.Stop, err)
			}
		}
		now, x := Learned(s), []float64(nil)
		if err := s.WithAverage(func() error {
			x = doubles(d, s.model.Instance.Params.Values())
			return nil
		}); err != nil {
			t.Error(err)
		}
		if rank == 0 {
			learned, average = append(learned, now), append(average, x)
		}
	}
	train(openCPU(t, cpu.Options{Threads: 1, Precision: cpu.FP64}), 0, 1)
	devicetest.Ranks(3, func(w *devicetest.World) {
		rank, ranks := w.Rank()
		train(&devicetest.Late{Device: rankedCPU(t, w, cpu.FP64)}, rank, ranks)
	})
	if off := distance(average[0], average[1]); off > 1e-6*norm(average[0]) {
		t.Errorf("averages are off by %v of %v", off, norm(average[0]))
	}
	for name, v := range learned[0] {
		if len(learned[0]) != 2 || !(math.Abs(learned[1][name]-v) <= 1e-6) {
			t.Errorf("learned %v, alone %v", learned[1], learned[0])
		}
	}
}

// A rank whose parameters differ in a bit is named, on all ranks; after BroadcastState they are the same as on rank 0.
func TestRanksCompare(t *testing.T) {
	devicetest.Ranks(3, func(w *devicetest.World) {
		s := tinyStep(t, rankedCPU(t, w, cpu.FP32), loss.LMH, 0)
		r, rank := RanksOf(s), 0
		if rank, _ = w.Rank(); rank > 0 {
			s.model.Init(uint64(rank), nil)
		}
		st := State{Position: Position{Step: int64(7 - rank), Best: 12.25}}
		s.opt.steps = int64(5 - rank)
		if err := errors.Join(BroadcastState(s, &st), r.Compare()); err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
		if st.Position.Step != 7 || st.Position.Best != 12.25 || s.opt.steps != 5 {
			t.Errorf("rank %d begins with %+v and %d updates", rank, st, s.opt.steps)
		}
		v := s.model.Instance.Params.Value("txt.embed.weight")
		if x := doubles(s.model.Instance.Dev, v); rank == 1 {
			x[3] = math.Float64frombits(math.Float64bits(x[3]) + 1<<29)
			s.model.Instance.Dev.UploadDoubles(v, x)
		}
		try.Fails(t, r.Compare(), "rank [1] differ")
	})
}

// What ranks cannot do is refused.
func TestRanksRefuse(t *testing.T) {
	devicetest.Ranks(2, func(w *devicetest.World) {
		d := rankedCPU(t, w, cpu.FP32)
		o := published(t, models.CHAN)
		o.CHAN.ImageEncoder, o.CHAN.Axis = "transformer", "batch"
		m, err := models.NewModel(d, o, manyRegions)
		if err != nil {
			t.Error(err)
			return
		}
		try.Refuses(NewStep(m, loss.DefaultOptions(), adam(1e-2)))(t, "chan.transformer_axis: batch")
		s := tinyStep(t, d, loss.LMH, 0)
		try.Refuses(s.Run(tinyBatch(1, 6, 8), 1e-2, false))(t, "a batch of 6 images of rank 0 of 1")
	})
}

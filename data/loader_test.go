package data

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/batch"
	"vsetrain/internal/files/half"
	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

// snapshot is what a batch says, as one comparable text.
func snapshot(b *Batch) string {
	return fmt.Sprint(b.Epoch, b.Iter, b.N, b.L, b.Regions, b.Dim, b.Features, b.Counts, b.FeatureRows, b.ImageIndices,
		b.Words, b.Lengths, b.Indices, b.Semantics)
}

func mustNext(t testing.TB, l *Loader) *Batch {
	t.Helper()
	return try.Get(l.Next())(t)
}

func drain(t testing.TB, l *Loader, n int) (all []string) {
	t.Helper()
	for range n {
		b := mustNext(t, l)
		all = append(all, snapshot(b))
		l.Release(b)
	}
	return all
}

func TestLoaderBatchesBelongTogether(t *testing.T) {
	for _, repeated := range []bool{false, true} {
		w := newWorld(t, 9, 5, repeated, "train")
		s, v := w.open(t, "train", OpenOptions{}), vocab(t)
		encoder := v.NewEncoder()
		try.Do(t, s.AttachSemantics(matrix{45, 2, func(r, c int) float32 { return float32(10*r + c) }},
			"svd"))
		seen := map[int32]bool{}
		for b := range batchesOf(NewLoader(s, v, LoaderOptions{Batch: 8, Seed: 3, Shuffle: true, Epochs: 1}))(t) {
			if b.Full != 8 {
				t.Errorf("%d of %d pairs", b.N, b.Full)
			}
			for i := range b.N {
				c := int(b.Indices[i])
				seen[b.Indices[i]] = true
				want, _, _ := encoder.Append(nil, w.caption(c))
				if got := b.Words[i]; !slices.Equal(got, want) {
					t.Errorf("caption %d: words %v, want %v", c, got, want)
				}
				if int(b.ImageIndices[i]) != c/5 || int(b.FeatureRows[i]) != s.ImageRow(c) ||
					b.Features[i*12+5] != w.feature(c/5, 5) {
					t.Errorf("caption %d: image %d, row %d, features %v", c, b.ImageIndices[i], b.FeatureRows[i],
						b.Features[i*12:i*12+12])
				}
				if b.SemanticDim != 2 || b.Semantics[2*i] != float32(10*c) || b.Semantics[2*i+1] != float32(10*c+1) {
					t.Errorf("caption %d: semantics %v", c, b.Semantics[2*i:2*i+2])
				}
				if i > 0 && b.Lengths[i] > b.Lengths[i-1] {
					t.Errorf("lengths %v are not descending", b.Lengths)
				}
			}
			if b.L != int(b.Lengths[0]) {
				t.Errorf("L %d, longest %d", b.L, b.Lengths[0])
			}
		}
		if len(seen) != 45 {
			t.Errorf("%d captions in an epoch of 45", len(seen))
		}
	}
}

func TestLoaderOrderDoesNotDependOnWorkersOrStart(t *testing.T) {
	w := newWorld(t, 11, 5, false, "train")
	s, v := w.open(t, "train", OpenOptions{}), vocab(t)
	base := LoaderOptions{Batch: 4, Seed: 5, Shuffle: true}
	var want []string
	for _, o := range []struct{ workers, prefetch int }{{1, 1}, {2, 0}, {5, 9}, {7, 2}} {
		opts := base
		opts.Workers, opts.Prefetch = o.workers, o.prefetch
		l := try.Get(NewLoader(s, v, opts))(t)
		got := drain(t, l, 60) // more than four epochs of 14
		l.Close()
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d workers: other batches", o.workers)
		}
	}
	for _, at := range []int{0, 1, 13, 14, 27, 40} {
		opts := base
		opts.StartEpoch, opts.StartIter = at/14, at%14
		l := try.Get(NewLoader(s, v, opts))(t)
		if got := drain(t, l, 8); !slices.Equal(got, want[at:at+8]) {
			t.Errorf("resumed at %d: other batches", at)
		}
		l.Close()
	}
}

func TestLoaderReportsFeaturesThatAreNotFinite(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		w := newWorld(t, 5, 5, false, "train")
		data := make([]float32, 60)
		data[2*12+7] = float32(bad)
		w.array(t, "train_ims.npy", []int{5, 3, 4}, data)
		l := try.Get(NewLoader(w.open(t, "train", OpenOptions{}), vocab(t), LoaderOptions{Batch: 25}))(t)
		_, err := l.Next()
		l.Close()
		if err == nil {
			t.Fatalf("%v was delivered", bad)
		}
		if !strings.HasPrefix(err.Error(), w.path("train_ims.npy")) { // not with what the loader is about
			t.Errorf("%v; expected the file first", err)
		}
		try.Fails(t, err, "row 2", "image id im2", "region 1, feature 3", fmt.Sprint(bad), "vsetrain data check "+w.dir)
		if _, again := l.Next(); !errors.Is(again, err) {
			t.Errorf("the next call says %v", again)
		}
	}
}

func TestLoaderRefusesBadUse(t *testing.T) {
	w := newWorld(t, 5, 5, false, "train")
	s, v := w.open(t, "train", OpenOptions{}), vocab(t)
	for _, o := range []LoaderOptions{{}, {Batch: 2, Workers: -1}, {Batch: 5, StartIter: 6},
		{Batch: 26, DropLast: true}} {
		if l, err := NewLoader(s, v, o); err == nil {
			l.Close()
			t.Errorf("%+v was accepted", o)
		}
	}
	if _, err := NewLoader(s, nil, LoaderOptions{Batch: 2}); err == nil {
		t.Error("no vocabulary was accepted")
	}
	if _, err := NewCaptionLoader(s, v, []int32{25}, LoaderOptions{Batch: 2}); err == nil {
		t.Error("a caption beyond the file was accepted")
	}
	l := try.Get(NewLoader(s, v, LoaderOptions{Batch: 5, Prefetch: 1}))(t)
	first := mustNext(t, l)
	mustNext(t, l)
	try.Refuses(l.Next())(t, "release")
	l.Release(first)
	mustNext(t, l)
	l.Close()
	l.Close()
	if _, err := l.Next(); err == nil {
		t.Error("a closed loader delivers")
	}
}

func TestLoaderCloseLeavesNoGoroutine(t *testing.T) {
	w := newWorld(t, 20, 5, false, "train")
	s, v := w.open(t, "train", OpenOptions{}), vocab(t)
	before := runtime.NumGoroutine()
	for n := range 20 {
		l := try.Get(NewLoader(s, v, LoaderOptions{Batch: 3, Workers: 4, Shuffle: true}))(t)
		drain(t, l, n)
		l.Close()
	}
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

func TestLoaderSteadyStateAllocatesNothing(t *testing.T) {
	w := newWorld(t, 40, 5, false, "train")
	s, v := w.open(t, "train", OpenOptions{}), vocab(t)
	for _, fields := range [][]Field{{FieldFeatures}, {FieldFeatures, FieldAugmentation}} {
		l := try.Get(NewLoader(s, v, LoaderOptions{Batch: 16, Fields: fields}))(t)
		defer l.Close()
		step := func() { l.Release(mustNext(t, l)) }
		for range 60 {
			step()
		}
		if n := testing.AllocsPerRun(200, step); n > 0 {
			t.Errorf("%v: %v allocations per batch", fields, n)
		}
	}
}

// host is a Stage of ordinary memory.
type host struct {
	floats []float32
	halves []uint16
}

func (h *host) Floats() []float32 { return h.floats }
func (h *host) Halves() []uint16  { return h.halves }

// values are the features of a batch, wherever they are.
func values(b *Batch) []float32 {
	if b.Stage == nil {
		return b.Features
	}
	n := b.N * b.Regions
	if b.Counts != nil {
		n = 0
		for _, c := range b.Counts {
			n += int(c)
		}
	}
	n *= b.Dim
	if b.Stage.Floats() != nil {
		return slices.Clone(b.Stage.Floats()[:n])
	}
	x := make([]float32, n)
	for i, h := range b.Stage.Halves()[:n] {
		x[i] = half.Float32(h)
	}
	return x
}

// Stages bring the features that batches bring otherwise: float16 and float32, shuffled, of a last short batch, with
// dropped regions, from any position. A batch that is used again has its stage still.
func TestLoaderStages(t *testing.T) {
	features := make([]float32, 9*12)
	for i := range features {
		features[i] = float32(i) / 7
	}
	for k := range 4 {
		asHalf, fields := k&1 != 0, []Field{FieldFeatures}
		if k&2 != 0 {
			fields = append(fields, FieldAugmentation)
		}
		w := newWorld(t, 9, 5, false, "train")
		if asHalf {
			w.typed(t, "train_ims.npy", npy.F16, []int{9, 3, 4}, features)
		}
		s, v := w.open(t, "train", OpenOptions{}), vocab(t)
		if s.HalfFeatures() != asHalf {
			t.Fatal("the features have another type")
		}
		run := func(staged bool, from int) (all []string) {
			o := LoaderOptions{Batch: 8, Seed: 3, Shuffle: true, Epochs: 3, Fields: fields, StartEpoch: from / 6,
				StartIter: from % 6, Workers: 2, Prefetch: 3}
			for range 4 {
				if x := (&host{}); staged {
					if asHalf {
						x.halves = make([]uint16, 8*12)
					} else {
						x.floats = make([]float32, 8*12+1)
					}
					o.Stages = append(o.Stages, x)
				}
			}
			for b := range batchesOf(NewLoader(s, v, o))(t) {
				if staged != (b.Stage != nil) || staged != (len(b.Features) == 0) {
					t.Fatalf("stage %v, %d features beside it", b.Stage, len(b.Features))
				}
				all = append(all, fmt.Sprint(b.Epoch, b.Iter, b.N, values(b), b.Counts, b.Words, b.FeatureRows))
			}
			return all
		}
		want := run(false, 0)
		if got := run(true, 0); len(want) != 18 || !slices.Equal(got, want) {
			t.Errorf("half %t, %s:\n%s\nwithout stages:\n%s", asHalf, fields, strings.Join(got, "\n"),
				strings.Join(want, "\n"))
		}
		if got := run(true, 10); !slices.Equal(got, want[10:]) {
			t.Errorf("half %t, %s: other batches from position 10 on", asHalf, fields)
		}
	}
}

// Stages that do not suit the batches are refused; half precision that is not finite is named as float32 is.
func TestLoaderStageErrors(t *testing.T) {
	w := newWorld(t, 9, 5, false, "train")
	s, v := w.open(t, "train", OpenOptions{}), vocab(t)
	open := func(s *Split, prefetch int, stages ...batch.Stage) error {
		l, err := NewLoader(s, v, LoaderOptions{Batch: 2, Prefetch: prefetch, Stages: stages})
		if err != nil {
			return err
		}
		defer l.Close()
		_, err = l.Next()
		return err
	}
	floats, halves := &host{floats: make([]float32, 24)}, &host{halves: make([]uint16, 24)}
	try.Fails(t, open(s, 2, floats, floats), "2 stages for 3 batches")
	try.Fails(t, open(s, 1, floats, &host{floats: make([]float32, 23)}), "room for 23 values, expected 24")
	try.Fails(t, open(s, 1, halves, halves), "room for 0 values, expected 24 (float16: false)")
	try.Fails(t, s.ReadHalves(halves.halves[:12], 0), "expected rows of float16")
	bad := make([]float32, 9*12)
	bad[1] = float32(math.NaN())
	w.typed(t, "train_ims.npy", npy.F16, []int{9, 3, 4}, bad)
	s = w.open(t, "train", OpenOptions{})
	try.Fails(t, open(s, 1, floats, floats), "room for 0 values, expected 24 (float16: true)")
	try.Fails(t, open(s, 1, halves, &host{halves: make([]uint16, 24)}), "row 0", "region 0, feature 1 is NaN")
}

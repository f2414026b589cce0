package evaluate

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/run/pretrained"
	"vsetrain/lab/devicetest"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// onRanks measures with that many ranks and returns what each returns.
func onRanks(n int, of func(rank int) (context.Context, Request)) (reps []Report, errs []error) {
	reps, errs = make([]Report, n), make([]error, n)
	devicetest.Ranks(n, func(w *devicetest.World) {
		rank, _ := w.Rank()
		ctx, r := of(rank)
		r.World = w
		reps[rank], errs[rank] = Run(ctx, r)
	})
	return reps, errs
}

// Ranks that divide a split have the scores of one process, bit for bit, and its measures: every network, and an
// ensemble; a last batch that is short; more ranks than batches.
func TestRanksMeasureAsOne(t *testing.T) {
	var all []string
	for _, network := range models.NamesWhere(func(models.Traits) bool { return true }) {
		c := runtest.TinyConfig()
		runtest.SetNetwork(c, network)
		c.Train.MaxSteps = 2
		run := runtest.Train(t, c)
		all = append(all, run)
		t.Run(network, func(t *testing.T) {
			sameScores(t, 3, 13, run)
			movesLittle(t, network, run)
		})
	}
	t.Run("ensemble", func(t *testing.T) { sameScores(t, 2, 7, all[0], all[len(all)-1]) })
	t.Run("one batch", func(t *testing.T) { sameScores(t, 4, 500, all[0]) })
}

func sameScores(t *testing.T, ranks, batch int, runs ...string) {
	r := Request{Checkpoints: runs, Split: "train", Data: runtest.World, Protocol: eval.Auto, Batch: batch,
		Device: device.Options{Kind: "cpu", Threads: 1, Precision: "fp32"}, SaveScores: filepath.Join(t.TempDir(),
			"one.npy")}
	one := try.Get(Run(t.Context(), r))(t)
	want := readScores(t, r.SaveScores)
	r.SaveScores = filepath.Join(t.TempDir(), "ranks.npy")
	reps, errs := onRanks(ranks, func(int) (context.Context, Request) { return t.Context(), r })
	try.Do(t, errors.Join(errs...))
	for i, v := range readScores(t, r.SaveScores) {
		if math.Float64bits(v) != math.Float64bits(want[i]) {
			t.Fatalf("score %d of %d is %v, of one process %v", i, len(want), v, want[i])
		}
	}
	if !reflect.DeepEqual(reps[0].Results, one.Results) || len(reps[1].Results) > 0 {
		t.Errorf("measures %+v, of one process %+v; of rank 1 %+v", reps[0].Results, one.Results, reps[1].Results)
	}
}

// encoded are the widths of what a network encodes, for 16 dimensions and 3 regions: values of an image, of a word and
// of a caption.
var encoded = map[string]struct{ image, word, caption []int }{
	models.VSEPP:  {image: []int{16}, caption: []int{16}},
	models.VSRN:   {image: []int{16}, caption: []int{16}},
	models.VSEInf: {image: []int{16}, caption: []int{16}},
	models.SAF:    {image: []int{3 * 16, 16}, word: []int{16}, caption: []int{16}}, // and their means
	models.SGR:    {image: []int{3 * 16, 16}, word: []int{16}, caption: []int{16}},
	models.GSMN:   {image: []int{3 * 16, 3 * 8}, word: []int{16}}, // a region's weight in eight kernels
	models.SCAN:   {image: []int{3 * 16}, word: []int{16}},
	models.CHAN:   {image: []int{3 * 16}, word: []int{16}},
}

// movesLittle checks that two ranks send each encoded value and each score once, in no more collectives than rounds.
func movesLittle(t *testing.T, network, run string) {
	widths, ok := encoded[network]
	if !ok {
		t.Fatalf("%s has no budget", network)
	}
	opened := try.Get(pretrained.Open(pretrained.Request{Checkpoint: run, Data: runtest.World, Split: "train",
		Device: device.Options{Kind: "cpu", Threads: 1, Precision: "fp32"}}))(t)
	defer opened.Close()
	const ranks, batch, images, captions = 2, 10, 40, 200
	var calls, values int
	move := func(n int) { calls, values = calls+1, values+n }
	// the captions are compared, a digest in quotes and brackets and its length, and a hash of the parameters
	move(4)
	move(64 + 4)
	move(4 * ranks)
	lengths := make([]int, 0, captions)
	coder := opened.Tokenizer.NewEncoder()
	for _, c := range data.LengthOrder(opened.Split, opened.Tokenizer) {
		ids, _, _ := coder.Append(nil, opened.Split.Caption(int(c)))
		lengths = append(lengths, len(ids))
	}
	for at := 0; at < images; at += ranks * batch {
		move(1) // whether a rank was told to stop
		for _, w := range widths.image {
			move(ranks * batch * w)
		}
	}
	for at := 0; at < captions; at += ranks * batch {
		move(1)
		for _, w := range widths.caption {
			move(ranks * batch * w)
		}
		var words [ranks]int // pieces are padded to the longest
		for i, n := range lengths[at : at+ranks*batch] {
			words[i/batch] += n
		}
		for _, w := range widths.word {
			move(ranks * slices.Max(words[:]) * w)
		}
	}
	if len(widths.word) > 0 { // tiles of 40 x 64 pairs, two of each rank, the last of 8 captions
		move(1)
		move(ranks * 2 * 40 * 64)
	}
	devicetest.Ranks(ranks, func(w *devicetest.World) {
		_, err := Run(t.Context(), Request{Checkpoints: []string{run}, Split: "train", Data: runtest.World,
			Batch: batch, Protocol: eval.Auto, World: w,
			Device: device.Options{Kind: "cpu", Threads: 1, Precision: "fp32"}})
		if err != nil || w.Calls != calls || w.Values != values {
			t.Errorf("%d collectives of %d values, expected %d of %d: %v", w.Calls, w.Values, calls, values, err)
		}
	})
}

// Ranks stop together where one is told to, keep the tiles that were scored, and go on from them. A rank with other
// weights is named.
func TestRanksResumeScoring(t *testing.T) {
	c := runtest.TinyConfig()
	runtest.SetNetwork(c, models.SAF)
	c.Train.MaxSteps = 1
	run := runtest.Train(t, c)
	r := Request{Checkpoints: []string{run}, Split: "train", Data: runtest.World, Protocol: eval.Auto,
		Device: device.Options{Kind: "cpu", Threads: 1, Precision: "fp32"}}
	_, want := evaluateWith(t, r)
	r.Work = filepath.Join(t.TempDir(), "scored")
	ctx, stop := context.WithCancel(t.Context())
	alone := r
	alone.Progress = func(phase string, done, _ int) {
		if strings.HasPrefix(phase, "score") && done > 0 {
			stop()
		}
	}
	if _, err := Run(ctx, alone); !errors.Is(err, context.Canceled) {
		t.Fatalf("a stopped scoring: %v", err)
	}
	_, errs := onRanks(2, func(rank int) (context.Context, Request) {
		if rank == 1 {
			return ctx, r
		}
		return t.Context(), r
	})
	for rank, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("rank %d, where rank 1 was told to stop: %v", rank, err)
		}
	}
	r.SaveScores = filepath.Join(t.TempDir(), "ranks.npy")
	start := -1
	_, errs = onRanks(2, func(rank int) (context.Context, Request) {
		own := r
		if rank == 0 {
			own.Progress = func(phase string, done, _ int) {
				if strings.HasPrefix(phase, "score") && start < 0 {
					start = done
				}
			}
		}
		return t.Context(), own
	})
	try.Do(t, errors.Join(errs...))
	if got := readScores(t, r.SaveScores); runtest.Worst(got, want) != 0 || start <= 0 {
		t.Errorf("scores are off by %v, %d were taken over", runtest.Worst(got, want), start)
	}

	c.Seed++
	other := runtest.Train(t, c)
	_, errs = onRanks(2, func(rank int) (context.Context, Request) {
		own := r
		if own.Work = ""; rank == 1 {
			own.Checkpoints = []string{other}
		}
		return t.Context(), own
	})
	for _, err := range errs {
		try.Fails(t, err, "the parameters of rank [1] differ")
	}
}

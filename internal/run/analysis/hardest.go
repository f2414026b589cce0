package analysis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"vsetrain/data"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/pretrained"
	"vsetrain/loss"
	"vsetrain/semantic"
)

// HardestRequest asks for the hardest negative images of a caption under the losses of several runs, as a figure
// of the LSEH paper shows them.
type HardestRequest struct {
	pretrained.AnalysisRequest
	Runs []string // run directories
	// vectors of the captions of the split; empty is the file of the training split where the split is train
	Semantics string
	Query     int // line of the caption file, from 1; 0 takes the caption with the largest hinges in the first run
	Batch     int // pairs in the batch; 0 is the batch of the first run
	Top       int // negatives to list
}

// Hardest holds the hardest negatives of one caption in the same batch under each run.
type Hardest struct {
	Split   string
	Caption string
	Line    int // of the caption file, from 1
	ImageID string
	Batch   int
	Lists   []HardestList
}

// HardestList is the list of one run, the hardest negative first.
type HardestList struct {
	Run, Checkpoint string
	Match           float64 // score of the caption and its image
	Negatives       []Negative
}

// Negative is a negative image of a caption. Its gradient grows with its hinge; a step of training takes the first one
// only.
type Negative struct {
	ImageID    string
	Similarity float64 // score
	Semantic   float64 // semantic similarity of its caption and the caption; NaN without semantic vectors
	Margin     float64
	Hinge      float64 // margin + similarity - match
}

// topNegatives ranks the images of a batch by their hinge with one caption, margin + score - match, the largest first,
// ties in the order of the batch and the matching image left out. scores and margins are [n, n], image by image. hinges
// has one for each image, 0 for the match.
func topNegatives(scores, margins []float64, n, caption int) (order []int, hinges []float64) {
	hinges = make([]float64, n)
	for i := range n {
		if i != caption {
			hinges[i] = margins[i*n+caption] + scores[i*n+caption] - scores[caption*n+caption]
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(hinges[b], hinges[a]) })
	return order, hinges
}

// HardestNegatives finds the hardest negatives of one caption in one batch under each run, with the weights of its best
// validation in evaluation mode. The batch is one of the first epoch of the first run.
func HardestNegatives(ctx context.Context, r HardestRequest) (*Hardest, error) {
	if len(r.Runs) == 0 || r.Top < 1 {
		return nil, errors.New("hardest negatives: expected at least one run and one negative")
	}
	h := &hardest{HardestRequest: r, out: &Hardest{Split: r.Split}}
	for _, dir := range r.Runs {
		if err := h.add(ctx, dir); err != nil {
			return nil, fmt.Errorf("hardest negatives: %w", err)
		}
	}
	return h.out, nil
}

type hardest struct {
	HardestRequest
	out      *Hardest
	captions []int32 // of the batch
	query    int     // place in the batch
	vectors  []float32
	dim      int
}

func (h *hardest) add(ctx context.Context, dir string) error {
	cfg, err := inputs.LoadRun(dir)
	if err != nil {
		return err
	}
	l, err := h.Load(dir, false)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.FollowNoise(); err != nil {
		return err
	}
	first := h.captions == nil
	if first {
		if err := h.choose(l, &cfg.Config); err != nil {
			return err
		}
	}
	if slices.Max(h.captions) >= int32(l.Split.NumCaptions()) {
		return fmt.Errorf("%s: split %s has %d captions, the one of the first run has more; compare runs on one data "+
			"set", l.Split.Dir(), h.Split, l.Split.NumCaptions())
	}
	n := len(h.captions)
	scores, err := l.BatchScores(ctx, h.captions)
	if err != nil {
		return err
	}
	images := make([]int32, n)
	for i, c := range h.captions {
		images[i] = int32(l.Split.ImageOf(int(c)))
	}
	margins, similar, err := h.margins(l, &cfg.Config.Loss, images)
	if err != nil {
		return err
	}
	if first && h.Query == 0 {
		h.query = hardestCaption(scores, margins, n, h.Top)
	}
	if first {
		c := int(h.captions[h.query])
		h.out.Caption, h.out.Line, h.out.Batch = l.Split.Caption(c), c+1, n
		h.out.ImageID = l.Split.ImageID(l.Split.ImageRow(c))
	}
	list := HardestList{Run: dir, Checkpoint: l.Found, Match: scores[h.query*n+h.query]}
	order, hinges := topNegatives(scores, margins, n, h.query)
	seen := map[int32]bool{images[h.query]: true}
	for _, i := range order {
		if seen[images[i]] || len(list.Negatives) == h.Top {
			continue
		}
		seen[images[i]] = true
		at := i*n + h.query
		neg := Negative{ImageID: l.Split.ImageID(l.Split.ImageRow(int(h.captions[i]))), Similarity: scores[at],
			Semantic: math.NaN(), Margin: margins[at], Hinge: hinges[i]}
		if similar != nil {
			neg.Semantic = similar[at]
		}
		list.Negatives = append(list.Negatives, neg)
	}
	h.out.Lists = append(h.out.Lists, list)
	return nil
}

// choose draws the batch.
func (h *hardest) choose(l *pretrained.Network, c *config.Config) error {
	size := h.Batch
	if size == 0 {
		size = min(c.Train.Batch, l.Split.NumCaptions())
	}
	s, err := data.NewSampler(l.Split.NumCaptions(), size, c.Seed, c.Train.Shuffle, true)
	if err != nil {
		return err
	}
	if h.Query > l.Split.NumCaptions() {
		return fmt.Errorf("line %d of %s: split %s has %d captions", h.Query, l.Split.Dir(), h.Split,
			l.Split.NumCaptions())
	}
	for i := range s.BatchesPerEpoch() {
		h.captions = slices.Clone(s.Batch(0, i))
		if h.query = slices.Index(h.captions, int32(h.Query-1)); h.query >= 0 || h.Query == 0 {
			return nil
		}
	}
	// the caption is in the incomplete last batch: it takes the place of the last one in a whole batch
	h.query = size - 1
	h.captions[h.query] = int32(h.Query - 1)
	return nil
}

// hardestCaption is the caption whose first negatives have the largest hinges in sum.
func hardestCaption(scores, margins []float64, n, top int) int {
	best, at := math.Inf(-1), 0
	for c := range n {
		order, hinges := topNegatives(scores, margins, n, c)
		sum := 0.0
		for _, i := range order[:min(top, len(order))] {
			sum += hinges[i]
		}
		if sum > best {
			best, at = sum, c
		}
	}
	return at
}

// margins returns the margins [n, n] of a loss and the semantic similarities, nil without semantic vectors.
func (h *hardest) margins(l *pretrained.Network, o *loss.Options, images []int32) (margins, similar []float64,
	err error) {
	n := len(h.captions)
	if err := h.readVectors(l, o); err != nil {
		return nil, nil, err
	}
	if h.vectors != nil {
		pure := o.Similarities()
		if similar, err = lsehMargins(l, &pure, h.vectors, h.dim, images); err != nil {
			return nil, nil, err
		}
	}
	if o.HasMargins() {
		margins, err = lsehMargins(l, o, h.vectors, h.dim, images)
		return margins, similar, err
	}
	margins = make([]float64, n*n)
	for i := range margins {
		margins[i] = o.Margin
	}
	return margins, similar, nil
}

// readVectors reads the semantic vectors of the batch, once.
func (h *hardest) readVectors(l *pretrained.Network, o *loss.Options) error {
	if h.vectors != nil {
		return nil
	}
	path, err := h.Semantics, error(nil)
	if path == "" && h.Split == "train" {
		path, err = inputs.SemanticsPath(l.Data, o)
	} else if path == "" {
		path = filepath.Join(l.Split.Dir(), h.Split+"_"+o.LSEH.Semantics+".npy")
	}
	var store *semantic.Store
	if err == nil {
		store, err = inputs.OpenSemantics(path, l.Split, h.Warn)
	}
	if err != nil {
		if !o.HasMargins() && h.Semantics == "" {
			return nil // only listed, not needed
		}
		return fmt.Errorf("semantic vectors of split %s: %w; 'vsetrain precompute-svd --data %s --split %s' computes "+
			"them", h.Split, err, l.Split.Dir(), h.Split)
	}
	defer store.Close()
	h.dim = store.RowLen()
	vectors := make([]float32, len(h.captions)*h.dim)
	for i, c := range h.captions {
		if err := store.ReadRow(vectors[i*h.dim:(i+1)*h.dim], int(c)); err != nil {
			return err
		}
	}
	h.vectors = vectors
	return nil
}

// lsehMargins computes margins as a training step does.
func lsehMargins(l *pretrained.Network, o *loss.Options, vectors []float32, dim int, images []int32) ([]float64,
	error) {
	const inVectors, inImages = "in.hardest.semantics", "in.hardest.images"
	n, s := len(images), l.Model.Instance
	g := s.Graph()
	var m *graph.Node
	var prog *graph.Program
	err := graph.Build(func() (err error) {
		c := loss.Context{Semantics: g.Input(inVectors, n, dim), Images: g.InputInts(inImages, n)}
		c.Captions = c.Images
		m = o.Margins(g, c, n)
		prog, err = graph.Compile(s, g, []*graph.Node{m}, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.Feed(inVectors, vectors); err != nil {
		return nil, err
	}
	if err := s.FeedInts(inImages, images); err != nil {
		return nil, err
	}
	if err := prog.RunAll(); err != nil {
		return nil, err
	}
	return prog.Doubles(m), nil
}

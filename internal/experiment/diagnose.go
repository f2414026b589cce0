package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/eval"
	"vsetrain/internal/par"
	"vsetrain/internal/runfs"
	"vsetrain/models"
)

// captionFacts finds what a diagnosis sorts the captions of a split by.
func captionFacts(pool *par.Pool, s *data.Split, v text.Lexicon) eval.CaptionFacts {
	captions := slices.Collect(s.Captions)
	f := eval.CaptionFacts{Words: make([]int, len(captions)), Unknown: make([]int, len(captions)),
		Duplicates: eval.NearDuplicates(pool, captions, s.CaptionsPerImage())}
	coder, ids := v.Coder(), []int32(nil)
	for c, caption := range captions {
		ids, f.Words[c], f.Unknown[c] = coder.Append(ids[:0], caption)
	}
	return f
}

// diagnosis is what a request wants to know of scores beside their recalls; nil if it wants nothing.
type diagnosis struct {
	facts  eval.CaptionFacts
	margin float64
}

// prepareDiagnosis finds the facts of the captions and the margin of the training, of the first checkpoint.
func (r *EvalRequest) prepareDiagnosis(pool *par.Pool, opened []*prepared) (*diagnosis, error) {
	if !r.Diagnose {
		return nil, nil
	}
	if len(opened) == 0 {
		return nil, errors.New("a diagnosis needs a checkpoint, which knows its vocabulary and its data")
	}
	margin, err := trainingMargin(r.Checkpoints[0])
	return &diagnosis{captionFacts(pool, opened[0].Split, opened[0].Lexicon), margin}, err
}

func (d *diagnosis) measure(pool *par.Pool, s eval.Scores, j *judges, rep *EvalReport) (err error) {
	if d == nil {
		return nil
	}
	var judgements []*eval.Judgements
	if j != nil {
		judgements = j.judgements
	}
	rep.Diagnosis, err = eval.Diagnose(pool, s, rep.CaptionsPerImage, d.facts, judgements, d.margin)
	return err
}

// trainingMargin is the margin of the run a checkpoint lies in, of LSEH without its semantic part; 0 if there is no
// run.
func trainingMargin(path string) (float64, error) {
	dir, ok, err := runOf(path)
	if err != nil || !ok {
		return 0, err
	}
	c, err := loadRun(dir)
	if err != nil {
		return 0, err
	}
	return c.Loss.Margin, nil
}

// FalseNegatives says how like their anchors the negatives of training batches are under one checkpoint, by the
// semantic vectors of the captions. A hard negative is the one with the largest hinge, as training takes it: for an
// image a caption, for a caption an image. One whose semantic similarity is at least FalseSimilarity is called false:
// it describes much the same.
type FalseNegatives struct {
	Checkpoint  string  `json:"checkpoint"` // its file's name
	Epoch       float64 `json:"epoch"`
	Step        int64   `json:"step"`
	Hard        int     `json:"hard"`            // hard negatives looked at
	HardSimilar float64 `json:"hard_similarity"` // their mean semantic similarity
	AllSimilar  float64 `json:"all_similarity"`  // that of all negatives of the batches
	HardFalse   float64 `json:"hard_false"`      // percent of the hard negatives that are false
	AllFalse    float64 `json:"all_false"`       // percent of all negatives
}

// FalseSimilarity is the semantic similarity from which a negative is called false.
const FalseSimilarity = 0.5

// falseBatches is how many batches of the first epoch are looked at.
const falseBatches = 16

// MeasureFalseNegatives looks at every checkpoint in a run directory, the earliest epoch first, on the same batches of
// the training split. It returns nil without an error where the training split has no semantic vectors.
func MeasureFalseNegatives(ctx context.Context, r AnalysisRequest, dir string) ([]FalseNegatives, error) {
	r.Split = "train"
	folder := filepath.Join(dir, runfs.CheckpointsName)
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("false negatives: %w", err)
	}
	var out []FalseNegatives
	for _, e := range files {
		if e.IsDir() || filepath.Ext(e.Name()) != ".safetensors" {
			continue
		}
		f, ok, err := falseNegatives(ctx, r, dir, filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("false negatives: %w", err)
		}
		if !ok {
			return nil, nil
		}
		if slices.ContainsFunc(out, func(o FalseNegatives) bool { return o.Step == f.Step }) {
			continue // the last weights are often the best ones
		}
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b FalseNegatives) int { return cmp.Compare(a.Epoch, b.Epoch) })
	return out, nil
}

func falseNegatives(ctx context.Context, r AnalysisRequest, dir, file string) (f FalseNegatives, ok bool, err error) {
	cfg, err := loadRun(dir)
	if err != nil {
		return f, false, err
	}
	w, err := models.OpenWeights(file)
	if err != nil {
		return f, false, err
	}
	f.Checkpoint = filepath.Base(file)
	f.Epoch, f.Step, _ = w.Progress()
	w.Close()
	l, err := r.load(file, false)
	if err != nil {
		return f, false, err
	}
	defer l.Close()
	size := min(cfg.Train.Batch, l.Split.NumCaptions())
	s, err := data.NewSampler(l.Split.NumCaptions(), size, cfg.Seed, cfg.Train.Shuffle, true)
	if err != nil {
		return f, false, err
	}
	all := 0
	for i := range min(falseBatches, s.BatchesPerEpoch()) {
		h := &hardest{HardestRequest: HardestRequest{AnalysisRequest: r}, captions: slices.Clone(s.Batch(0, i))}
		scores, err := batchScores(ctx, l, h.captions)
		if err != nil {
			return f, false, err
		}
		images := make([]int32, len(h.captions))
		for j, c := range h.captions {
			images[j] = int32(l.Split.ImageOf(int(c)))
		}
		margins, similar, err := h.margins(l, &cfg.Config.Loss, images)
		if err != nil {
			return f, false, err
		}
		if similar == nil {
			return f, false, nil
		}
		all += f.add(scores, margins, similar, images)
	}
	f.finish(all)
	return f, true, nil
}

// add counts one batch: scores, margins and semantic similarities [n, n], row i the image of caption i. It returns the
// number of negatives.
func (f *FalseNegatives) add(scores, margins, similar []float64, images []int32) (all int) {
	n := len(images)
	row, column := make([]int, n), make([]int, n) // the hard negative of each anchor
	for i := range n {
		row[i], column[i] = -1, -1
	}
	hinge := func(at, match int) float64 { return margins[at] + scores[at] - scores[match*n+match] }
	for i := range n {
		for c := range n {
			at := i*n + c
			if images[i] == images[c] {
				continue
			}
			all++
			f.AllSimilar += similar[at]
			if similar[at] >= FalseSimilarity {
				f.AllFalse++
			}
			if row[i] < 0 || hinge(at, i) > hinge(row[i], i) {
				row[i] = at
			}
			if column[c] < 0 || hinge(at, c) > hinge(column[c], c) {
				column[c] = at
			}
		}
	}
	for _, at := range append(row, column...) {
		if at < 0 {
			continue
		}
		f.Hard++
		f.HardSimilar += similar[at]
		if similar[at] >= FalseSimilarity {
			f.HardFalse++
		}
	}
	return all
}

// finish turns sums into means.
func (f *FalseNegatives) finish(all int) {
	hard := math.Max(1, float64(f.Hard))
	f.HardSimilar, f.HardFalse = f.HardSimilar/hard, 100*f.HardFalse/hard
	f.AllSimilar, f.AllFalse = f.AllSimilar/math.Max(1, float64(all)), 100*f.AllFalse/math.Max(1, float64(all))
}

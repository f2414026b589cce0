package evaluate

import (
	"errors"
	"slices"

	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/eval"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/pretrained"
)

// captionFacts finds the properties by which a diagnosis groups the captions of a split.
func captionFacts(pool *par.Pool, s *data.Split, v text.Tokenizer) eval.CaptionFacts {
	captions := slices.Collect(s.Captions)
	f := eval.CaptionFacts{Words: make([]int, len(captions)), Unknown: make([]int, len(captions)),
		Duplicates: eval.NearDuplicates(pool, captions, s.Groups())}
	coder, ids := v.NewEncoder(), []int32(nil)
	for c, caption := range captions {
		ids, f.Words[c], f.Unknown[c] = coder.Append(ids[:0], caption)
	}
	return f
}

// diagnosis is what a request needs from scores besides recalls; nil if it needs nothing.
type diagnosis struct {
	facts  eval.CaptionFacts
	margin float64
}

// prepareDiagnosis finds the facts of the captions and the margin of the training, of the first checkpoint.
func (r *Request) prepareDiagnosis(pool *par.Pool, opened []*pretrained.Prepared) (*diagnosis, error) {
	if !r.Diagnose {
		return nil, nil
	}
	if len(opened) == 0 {
		return nil, errors.New("a diagnosis needs a checkpoint, which knows its vocabulary and its data")
	}
	margin, err := trainingMargin(r.Checkpoints[0])
	return &diagnosis{captionFacts(pool, opened[0].Split, opened[0].Tokenizer), margin}, err
}

func (d *diagnosis) measure(pool *par.Pool, s eval.Scores, j *judges, rep *Report) (err error) {
	if d == nil {
		return nil
	}
	var judgements []*eval.Judgements
	if j != nil {
		judgements = j.judgements
	}
	rep.Diagnosis, err = eval.Diagnose(pool, s, rep.Own, d.facts, judgements, d.margin)
	return err
}

// trainingMargin is the margin of the run that a checkpoint belongs to, without the semantic part of LSEH; 0 outside a
// run.
func trainingMargin(path string) (float64, error) {
	dir, ok, err := pretrained.RunOf(path)
	if err != nil || !ok {
		return 0, err
	}
	c, err := inputs.LoadRun(dir)
	if err != nil {
		return 0, err
	}
	return c.Loss.Margin, nil
}

package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/device"
	"vsetrain/internal/par"
)

// EvalRequest asks for the recalls of one checkpoint, or of an ensemble.
type EvalRequest struct {
	Checkpoints []string
	Data        string // folder; empty is the one the first run was trained on
	Vocab       string // file; empty is the run's own, or the data set's
	Split       string
	Protocol    eval.Protocol
	Batch       int
	Device      device.Options
	BLAS        string
	Work        string // folder for scored tiles, see eval.EncodeOptions
	SaveScores  string // .npy to write the score matrix to
	Progress    func(stage string, done, total int)
	Warn        func(error) // something a person should know; nil reports nothing
}

// EvalReport is the outcome.
type EvalReport struct {
	Data, Split      string
	Checkpoints      []string // as they were found
	Images, Captions int
	Device, Choice   string   // of the last checkpoint; how auto chose, empty where the device was named
	Memory           []string // of a GPU: what it kept while pairs were scored, for each checkpoint that scores pairs
	Results          []eval.Result
}

// Eval ranks a split with the mean of the scores of all checkpoints.
func Eval(ctx context.Context, r EvalRequest) (EvalReport, error) {
	pool := par.New(r.Device.Threads)
	defer pool.Close()
	rep := EvalReport{Split: r.Split}
	var members []eval.Member
	perImage := 0
	for _, path := range r.Checkpoints {
		m, k, err := r.score(ctx, pool, path, &rep)
		if err != nil {
			return rep, err
		}
		if perImage != 0 && perImage != k {
			return rep, fmt.Errorf("%s: %d captions per image, the checkpoints before have %d", path, k, perImage)
		}
		perImage = k
		members = append(members, m)
	}
	scores := members[0].Scores
	if len(members) > 1 {
		var err error
		if scores, err = eval.Ensemble(members...); err != nil {
			return rep, err
		}
	}
	if r.SaveScores != "" {
		if err := eval.SaveScores(pool, r.SaveScores, scores); err != nil {
			return rep, err
		}
	}
	var err error
	rep.Results, err = eval.Evaluate(pool, scores, perImage, r.Protocol)
	return rep, err
}

// score embeds the split with one checkpoint.
func (r *EvalRequest) score(ctx context.Context, pool *par.Pool, path string, rep *EvalReport) (m eval.Member, perImage int, err error) {
	t, err := OpenTrained(TrainedRequest{Checkpoint: path, Data: r.Data, Vocab: r.Vocab, Split: r.Split, Device: r.Device, BLAS: r.BLAS})
	if err != nil {
		return m, 0, err
	}
	defer t.Close()
	streamed := r.Device
	streamed.Resident = "never"
	defer func() { err = explainDevice(err, streamed, "scored tiles that were kept (--work) are found again") }()
	rep.Device, rep.Choice = t.Model.Session.Dev.Name(), t.Choice.Reason
	if t.Choice.Warning != nil && r.Warn != nil {
		r.Warn(t.Choice.Warning)
	}
	o := eval.EncodeOptions{Batch: r.Batch, Work: r.Work, Warn: r.Warn, Plan: func(p eval.PairPlan) { rep.Memory = append(rep.Memory, p.String()) }}
	if r.Progress != nil {
		o.Progress = func(done, total int) { r.Progress("embed "+t.Name, done, total) }
		o.Pairs = func(done, total int) { r.Progress("score "+t.Name, done, total) }
	}
	m = eval.Member{Name: path, Data: t.Digest()}
	if m.Scores, err = eval.Score(ctx, pool, t.Model, t.Split, t.Lexicon, o); err != nil {
		return m, 0, err
	}
	rep.Data, rep.Images, rep.Captions = t.Split.Dir(), t.Split.NumImages(), t.Split.NumCaptions()
	rep.Checkpoints = append(rep.Checkpoints, t.Found)
	return m, t.Split.CaptionsPerImage(), nil
}

// digest identifies the captions of a split, so that scores of different data are never averaged.
func digest(s *data.Split) string {
	h := sha256.New()
	for c := range s.Captions {
		fmt.Fprintf(h, "%s\n", c)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Package evaluate measures trained networks on a split: recalls, agreement with judgements, a diagnosis of the
// recalls, and tests of the difference between two networks.
package evaluate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/compute/device/ranks"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/placement"
	"vsetrain/internal/run/pretrained"
	"vsetrain/models"
)

// Run ranks a split with the mean of the scores of all checkpoints and stored matrices.
func Run(ctx context.Context, r Request) (Report, error) {
	pool := par.New(r.Device.Threads)
	defer pool.Close()
	rep := Report{Split: r.Split}
	if r.SaveRanks != "" { // before the work, not after it
		if err := eval.CheckRanksPath(r.SaveRanks); err != nil {
			return rep, err
		}
	}
	opened, err := r.survey(&rep)
	defer func() {
		for _, p := range opened {
			p.Close()
		}
	}()
	if err != nil {
		return rep, err
	}
	if !ranks.IsRank0(r.World) {
		_, err := r.scoreAll(ctx, pool, &opened, &rep)
		return rep, err
	}
	stored, err := r.stored(&rep)
	if err != nil {
		return rep, err
	}
	if err := r.enough(&rep); err != nil {
		return rep, err
	}
	if err := r.repeated(opened); err != nil {
		return rep, err
	}
	judges, err := r.openJudges(&rep)
	if err != nil {
		return rep, err
	}
	diagnosis, err := r.prepareDiagnosis(pool, opened)
	if err != nil {
		return rep, err
	}
	members, err := r.scoreAll(ctx, pool, &opened, &rep)
	if err != nil {
		return rep, err
	}
	scores, err := eval.Ensemble(append(members, stored...)...)
	if err != nil {
		return rep, err
	}
	if r.SaveScores != "" {
		if err := eval.SaveScores(pool, r.SaveScores, scores); err != nil {
			return rep, err
		}
	}
	if rep.Results, err = eval.Evaluate(pool, scores, rep.Own, r.Protocol); err != nil {
		return rep, err
	}
	if err := judges.measure(pool, scores, &rep); err != nil {
		return rep, err
	}
	if err := diagnosis.measure(pool, scores, judges, &rep); err != nil || r.SaveRanks == "" {
		return rep, err
	}
	ranks, err := eval.Rank(pool, scores, rep.Own, r.Protocol)
	if err != nil {
		return rep, err
	}
	return rep, eval.SaveRanks(r.SaveRanks, ranks)
}

// scoreAll scores the split with all opened checkpoints and removes each from opened.
func (r *Request) scoreAll(ctx context.Context, pool *par.Pool, opened *[]*pretrained.Prepared, rep *Report) (
	members []eval.Member, err error) {
	for i := range r.Checkpoints {
		p := (*opened)[0]
		*opened = (*opened)[1:] // score closes it
		m, err := r.score(ctx, pool, i, p, rep)
		if err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	return members, nil
}

// survey opens and describes the checkpoints and their splits without computing anything. It returns an error if their
// scores cannot be averaged. The caller closes opened, also after an error.
func (r *Request) survey(rep *Report) (opened []*pretrained.Prepared, err error) {
	for _, path := range r.Checkpoints {
		q := r.trained(path)
		p, err := q.Prepare()
		if err != nil {
			return opened, err
		}
		if opened = append(opened, p); len(opened) == 1 {
			rep.describe(p.Split)
		} else if err := pretrained.SameSplit(r.Checkpoints[0], opened[0].Split, path, p.Split); err != nil {
			return opened, err
		}
		m, err := measuredOf(path, p, r.Warn)
		if err != nil {
			return opened, err
		}
		rep.Measured = append(rep.Measured, m)
	}
	return opened, nil
}

// enough returns an error if the split is too small for the protocol. The error names another split of the folder that
// is large enough.
func (r *Request) enough(rep *Report) error {
	err := r.Protocol.Fits(rep.Images)
	if err == nil || rep.Data == "" {
		return err
	}
	names, _ := data.Splits(rep.Data) // the error at hand matters more
	for _, name := range names {
		s, e := data.Open(rep.Data, name, data.OpenOptions{})
		if e != nil {
			continue
		}
		if n := s.NumImages(); name != "train" && r.Protocol.Fits(n) == nil {
			err = fmt.Errorf("%w; or split %s of %s, which has %d: --split %s", err, name, rep.Data, n, name)
		}
		s.Close()
	}
	return err
}

// repeated warns of a member that an ensemble contains twice.
func (r *Request) repeated(opened []*pretrained.Prepared) error {
	files := slices.Clone(r.Scores)
	for _, p := range opened {
		files = append(files, p.File)
	}
	return pretrained.Repeated(files, r.Warn)
}

// describe records the split that is measured.
func (rep *Report) describe(s *data.Split) {
	rep.Data, rep.Images, rep.Captions = s.Dir(), s.NumImages(), s.NumCaptions()
	rep.Own, rep.Digest = s.Groups(), data.Digest(s)
}

// trained is the request for one checkpoint.
func (r *Request) trained(path string) pretrained.Request {
	return pretrained.Request{Checkpoint: path, Set: r.Set, Data: r.Data, PerImage: r.PerImage, Vocab: r.Vocab,
		Split: r.Split, Device: r.Device, BLAS: r.BLAS, Warn: r.Warn, World: r.World}
}

// stored loads the score matrices and compares their shapes with the split of the checkpoints, or of the folder in the
// request. Without either, the first matrix gives the numbers of images and captions.
func (r *Request) stored(rep *Report) ([]eval.Member, error) {
	if len(r.Scores) > 0 && rep.Data == "" && r.Data != "" {
		s, err := data.Open(r.Data, r.Split, data.OpenOptions{CaptionsPerImage: r.PerImage.Of(r.Split)})
		if err != nil {
			return nil, inputs.NameFolder(err, "--data", nil)
		}
		defer s.Close()
		rep.describe(s)
	}
	var members []eval.Member
	for _, path := range r.Scores {
		s, err := eval.LoadScores(path)
		if err != nil {
			return nil, err
		}
		n, m := s.Dims()
		switch {
		case rep.Images == 0: // no split to compare with
			if m%n != 0 {
				return nil, fmt.Errorf("%s: scores of %d images x %d captions; expected the same number of "+
					"captions for every image; "+
					"is it the transpose, or a shard? (--data DIR names the data set)", path, n, m)
			}
			rep.Images, rep.Captions, rep.Own = n, m, data.EqualGroups(n, m/n)
		case rep.Data == "" && (n != rep.Images || m != rep.Captions):
			return nil, fmt.Errorf("%s: scores of %d images x %d captions; %s has %d x %d: score the same split "+
				"with every model",
				path, n, m, r.Scores[0], rep.Images, rep.Captions)
		case n != rep.Images || m != rep.Captions:
			remedy := "rows are distinct images and columns all their captions, in file order"
			if n == rep.Captions && m == rep.Images {
				remedy = "this is the transpose; expected a row for each image"
			}
			return nil, fmt.Errorf("%s: scores of %d images x %d captions; split %s of %s has %d images and %d "+
				"captions; %s", path, n, m, r.Split, rep.Data, rep.Images, rep.Captions, remedy)
		}
		members = append(members, eval.Member{Name: path, Data: rep.Digest, Scores: s})
		rep.Measured = append(rep.Measured, Measured{Scores: path})
	}
	return members, nil
}

// score embeds the split with checkpoint i of the request.
func (r *Request) score(ctx context.Context, pool *par.Pool, i int, p *pretrained.Prepared, rep *Report) (
	m eval.Member, err error) {
	q := r.trained(r.Checkpoints[i])
	t, err := p.Start(&q)
	if err != nil {
		return m, err
	}
	defer t.Close()
	streamed := r.Device
	streamed.Resident = "never"
	defer func() { err = placement.Explain(err, streamed, "scored tiles that were kept (--work) are found again") }()
	rep.Device, rep.Choice = t.Model.Instance.Dev.Name(), t.Choice.Reason
	rep.Measured[i].Device = rep.Device
	o := eval.EncodeOptions{Batch: r.Batch, Work: r.Work, Warn: r.Warn, ProcessorTime: r.ProcessorTime,
		Plan: func(p eval.PairPlan) { rep.Memory = append(rep.Memory, p.String()) }}
	if r.Progress != nil {
		o.Progress = func(done, total int) { r.Progress("embed "+t.Name, done, total) }
		o.Pairs = func(done, total int) { r.Progress("score "+t.Name, done, total) }
	}
	if r.CompatBoxes {
		if o.Boxes, err = compatBoxes(p, r.Protocol); err != nil {
			return m, fmt.Errorf("%s: %w", q.Checkpoint, err)
		}
		rep.Measured[i].CompatBoxes = true
	}
	if r.ranksAlone() {
		first, err := t.BF16First(r.Device, r.BLAS)
		if err != nil {
			return m, err
		}
		if first != nil {
			defer first.Close()
			o.First, o.Settled = first.Runner.Pairs, func(s eval.Settled) { rep.Measured[i].Settled = &s }
		}
	}
	m = eval.Member{Name: q.Checkpoint, Data: rep.Digest}
	m.Scores, err = eval.Score(ctx, pool, t.Runner, t.Split, t.Tokenizer, o)
	return m, err
}

// ranksAlone reports whether the scores of a checkpoint are used for its ranks only, also by later commands.
func (r *Request) ranksAlone() bool {
	return r.BF16First && len(r.Checkpoints) == 1 && len(r.Scores) == 0 && len(r.Judgements) == 0 && !r.Diagnose &&
		r.SaveScores == "" && r.SaveRanks == "" && r.Work == ""
}

// compatBoxes are the boxes of GSMN's own evaluation.
func compatBoxes(t *pretrained.Prepared, p eval.Protocol) (*data.StoredBoxes, error) {
	if network := t.Weights.Network(); !network.Traits().Boxes {
		return nil, fmt.Errorf("compat-boxes: network %s looks at no boxes; it is for %s", network.Network,
			strings.Join(models.NamesWhere(func(t models.Traits) bool { return t.Boxes }), ", "))
	}
	protocols := p.Resolve(t.Split.Groups())
	if len(protocols) > 1 {
		return nil, fmt.Errorf("compat-boxes: the repository takes other boxes in five folds than for the whole "+
			"split; name protocol %s or %s", protocols[0], protocols[1])
	}
	b := &data.StoredBoxes{Folds: protocols[0] == eval.FiveFolds}
	var err error
	if b.Batch, err = trainedBatch(t.Weights); err != nil {
		return nil, err
	}
	if b.Batch == 0 && t.Split.SharedBoxes() {
		return nil, errors.New("compat-boxes: the boxes are stored as float32, so the repository's evaluation " +
			"gives numbers that depend on batch_size, which this file does not say; evaluate its run directory, or a " +
			".pth.tar with the options")
	}
	return b, nil
}

// trainedBatch is the batch that weights were trained with, 0 where neither the file nor its run says so.
func trainedBatch(w models.Weights) (int, error) {
	if r, ok := w.(*models.Reference); ok {
		return r.Batch(), nil
	}
	dir, ok, err := pretrained.RunOf(w.File())
	if err != nil || !ok {
		return 0, err
	}
	c, err := inputs.LoadRun(dir)
	if err != nil {
		return 0, err
	}
	return int(c.Train.Batch), nil
}

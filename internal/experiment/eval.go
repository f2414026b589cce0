package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/eval"
	"vsetrain/internal/config"
	"vsetrain/internal/device"
	"vsetrain/internal/par"
	"vsetrain/internal/runfs"
	"vsetrain/models"
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
	Device, Choice   string // of the last checkpoint; how auto chose, empty where the device was named
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
	c, err := models.OpenWeights(path)
	if err != nil {
		return m, 0, err
	}
	defer c.Close()
	opt, err := r.dataOptions(path)
	if err != nil {
		return m, 0, err
	}
	network := c.Network()
	vocab, err := r.lexicon(path, opt, &network)
	if err != nil {
		return m, 0, err
	}
	split, err := OpenSplit(opt, network, r.Split)
	if err != nil {
		return m, 0, err
	}
	defer split.Close()
	dims, err := fits(c, split, vocab)
	if err != nil {
		return m, 0, err
	}
	dev, choice, err := ChooseDevice(r.Device, r.BLAS, &network)
	if err != nil {
		return m, 0, err
	}
	defer dev.Close()
	streamed := r.Device
	streamed.Resident = "never"
	defer func() { err = explainDevice(err, streamed, "scored tiles that were kept (--work) are found again") }()
	rep.Device, rep.Choice = dev.Name(), choice.Reason
	if choice.Warning != nil && r.Warn != nil {
		r.Warn(choice.Warning)
	}
	model, err := models.NewModel(dev, network, dims)
	if err != nil {
		return m, 0, err
	}
	if err := c.Restore(model); err != nil {
		return m, 0, err
	}
	name := filepath.Base(filepath.Clean(path))
	o := eval.EncodeOptions{Batch: r.Batch, Work: r.Work, Warn: r.Warn}
	if r.Progress != nil {
		o.Progress = func(done, total int) { r.Progress("embed "+name, done, total) }
		o.Pairs = func(done, total int) { r.Progress("score "+name, done, total) }
	}
	m = eval.Member{Name: path, Data: digest(split)}
	if m.Scores, err = eval.Score(ctx, pool, model, split, vocab, o); err != nil {
		return m, 0, err
	}
	rep.Data, rep.Images, rep.Captions = split.Dir(), split.NumImages(), split.NumCaptions()
	rep.Checkpoints = append(rep.Checkpoints, c.Describe())
	return m, split.CaptionsPerImage(), nil
}

// dataOptions are those of the run the checkpoint lies in, or the defaults, with the folder of the request.
func (r *EvalRequest) dataOptions(path string) (data.Options, error) {
	o := data.DefaultOptions()
	if dir, ok := runOf(path); ok {
		cfg, err := config.Load(config.Request{File: filepath.Join(dir, runfs.ConfigName)})
		if err != nil {
			return o, fmt.Errorf("run directory %s: %w", dir, err)
		}
		o = cfg.Data
		if r.Data != "" {
			o.Vocab, o.CaptionsPerImage, o.FeatureDType = "auto", 0, "auto"
		}
	}
	if r.Data != "" {
		o.Dir = r.Data
	}
	if o.Dir == "" {
		return o, errors.New("which data set? name its folder with --data (only a run directory knows the one it was trained on)")
	}
	return o, nil
}

// lexicon is the one named by the request, that of the run, or that of the data set.
func (r *EvalRequest) lexicon(path string, o data.Options, m *models.Options) (text.Lexicon, error) {
	if r.Vocab != "" {
		return loadLexicon(r.Vocab, m)
	}
	if dir, ok := runOf(path); ok {
		return loadLexicon(filepath.Join(dir, lexiconName(m)), m)
	}
	return OpenLexicon(o, m)
}

// lexiconName is the name of a lexicon in a run directory.
func lexiconName(m *models.Options) string {
	if m.TextEncoder == models.TextBert {
		return (*text.BertCaptions)(nil).FileName()
	}
	return (*text.Vocabulary)(nil).FileName()
}

// runOf returns the run directory that a checkpoint path names or lies in.
func runOf(path string) (string, bool) {
	for _, dir := range []string{path, filepath.Dir(filepath.Dir(path))} {
		if _, err := os.Stat(filepath.Join(dir, runfs.ConfigName)); err == nil {
			for _, l := range []text.Lexicon{(*text.Vocabulary)(nil), (*text.BertCaptions)(nil)} {
				if _, err := os.Stat(filepath.Join(dir, l.FileName())); err == nil {
					return dir, true
				}
			}
		}
	}
	return "", false
}

// fits checks that weights, data and vocabulary belong together, and returns the sizes of the network for this data.
func fits(c models.Weights, s *data.Split, v text.Lexicon) (models.Dims, error) {
	d, o := c.Sizes(), c.Network()
	if o.AnyRegions() {
		d.Regions = s.Regions()
	}
	if d.Regions*d.Feature != s.Regions()*s.Dim() {
		return d, fmt.Errorf("%s was trained on features of %d x %d, %s has %d x %d", c.Describe(), c.Sizes().Regions, d.Feature, s.FeaturePath(), s.Regions(), s.Dim())
	}
	return d, sameVocabulary(c, v)
}

// digest identifies the captions of a split, so that scores of different data are never averaged.
func digest(s *data.Split) string {
	h := sha256.New()
	for c := range s.Captions {
		fmt.Fprintf(h, "%s\n", c)
	}
	return hex.EncodeToString(h.Sum(nil))
}

package evaluate

import (
	"fmt"
	"path/filepath"

	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/eval"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/pretrained"
	"vsetrain/models"
)

// Measured is a measured model: a checkpoint, or stored scores.
type Measured struct {
	Scores     string   `json:"scores,omitempty"` // file of stored scores, of which nothing else is known
	Checkpoint string   `json:"checkpoint,omitempty"`
	Run        string   `json:"run,omitempty"` // run directory the checkpoint lies in
	Network    string   `json:"network,omitempty"`
	Loss       string   `json:"loss,omitempty"` // of the run
	Seed       *uint64  `json:"seed,omitempty"` // of the run
	Epoch      *float64 `json:"epoch,omitempty"`
	Step       *int64   `json:"step,omitempty"`
	Validation float64  `json:"validation_m_recall,omitempty"` // of these weights
	Vocabulary string   `json:"vocabulary,omitempty"`
	Device     string   `json:"device,omitempty"`
	// CompatBoxes says that the boxes are those that the evaluation of the network's repository uses.
	CompatBoxes bool          `json:"compat_boxes,omitempty"`
	Settled     *eval.Settled `json:"settled,omitempty"` // where pairs were scored in bf16 first
	// Words counts the words of the captions, and Unknown those that are not in the vocabulary. Foreign says that the
	// network was not trained on this data set, as far as known.
	Words   int    `json:"words,omitempty"`
	Unknown int    `json:"unknown_words,omitempty"`
	Foreign bool   `json:"other_data,omitempty"`
	feature string // shape of the features
	found   string // description for people
}

// Notes are remarks on the measures of the model, one sentence each.
func (m *Measured) Notes() (out []string) {
	if m.Unknown > 0 {
		out = append(out, fmt.Sprintf("%.1f %% of the words of the captions are unknown to its vocabulary",
			text.Coverage{Words: m.Words, Unknown: m.Unknown}.Percent()))
	}
	if m.Foreign {
		out = append(out, fmt.Sprintf("its features were compared with the data set's only in size (%s): "+
			"recalls mean little if another extractor made them", m.feature))
	}
	if s := m.Settled; s != nil {
		out = append(out, fmt.Sprintf("%d pairs scored in bf16, %d of them in fp32 too: ranks equal "+
			"those in fp32 unless the two differ by more than %.2g for another pair; here it is %.2g at most",
			s.Pairs, s.Again, s.Bound, s.Largest))
	}
	return out
}

// String describes the model for people.
func (m *Measured) String() string {
	if m.Scores != "" {
		return m.Scores + ": stored scores"
	}
	if m.CompatBoxes {
		return m.found + ", boxes as in the evaluation of its repository"
	}
	return m.found
}

// measuredOf describes a checkpoint and the run that it belongs to.
func measuredOf(path string, p *pretrained.Prepared, warn func(error)) (Measured, error) {
	w := p.Weights
	epoch, step, score := w.Progress()
	m := Measured{Checkpoint: absolute(w.File()), Network: networkOf(w), Epoch: &epoch, Step: &step, Validation: score,
		Vocabulary: p.Tokenizer.Hash(), found: w.Describe(), Foreign: true,
		feature: fmt.Sprintf("%d x %d", p.Split.Regions(), p.Split.Dim())}
	known := data.CoverageOf(p.Split, p.Tokenizer)
	m.Words, m.Unknown = known.Words, known.Unknown
	switch warning, err := known.Check(); {
	case err != nil:
		return m, fmt.Errorf("%s: %w", p.Split.CaptionPath(), err)
	case warning != nil && warn != nil:
		warn(fmt.Errorf("%s: %w", p.Split.CaptionPath(), warning))
	}
	dir, ok, err := pretrained.RunOf(path)
	if err != nil || !ok {
		return m, err
	}
	c, err := inputs.LoadRun(dir)
	if err != nil {
		return m, err
	}
	m.Run, m.Loss, m.Seed = absolute(dir), c.Loss.Name+c.Loss.Unacted(epoch), &c.Seed
	m.Foreign = absolute(c.Data.Dir) != absolute(p.Split.Dir())
	return m, nil
}

func networkOf(w models.Weights) string {
	o := w.Network()
	return o.Network
}

// absolute returns the absolute path, or the path as it is where the working directory is not known.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

package models

import (
	"fmt"
	"slices"
	"strings"

	"vsetrain/internal/files/pickle"
	"vsetrain/models/nn"
)

// Network, Sizes, VocabularyHash, Learned, Progress, File, Close, Describe, Assumed and Restore implement Weights. The
// references' checkpoints store no vocabulary, and no reference has a loss with parameters.
func (r *Reference) Network() Options       { return r.options }
func (r *Reference) Sizes() Dims            { return r.dims }
func (r *Reference) VocabularyHash() string { return "" }
func (r *Reference) Learned() []*nn.Param   { return nil }
func (r *Reference) File() string           { return r.Path }
func (r *Reference) Close() error           { return nil }

func (r *Reference) Progress() (float64, int64, float64) { return r.epoch, r.steps, r.score }

func (r *Reference) Describe() string {
	return fmt.Sprintf("%s: %s of a reference repository after epoch %g, validation score %.1f", r.Path,
		r.options.Network, r.epoch, r.score)
}

func (r *Reference) Assumed() string {
	if len(r.assumed) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %s; give others with --set KEY=VALUE, which 'vsetrain import' records", r.Path,
		strings.Join(r.assumed, "; "))
}

func (r *Reference) Restore(m *Model) error {
	if err := r.differs(m.Network); err != nil {
		return fmt.Errorf("%s: %w", r.Path, err)
	}
	for _, p := range m.Network.Params() {
		if trainingOnly(m.Network, p.Name) {
			continue
		}
		part, name, _ := strings.Cut(p.Name, ".")
		values, err := r.states[slices.Index(r.parts, part)][name].Float64s()
		if err != nil {
			return fmt.Errorf("%s: tensor %s: %w", r.Path, name, err)
		}
		m.Instance.Dev.UploadDoubles(m.Instance.Params.Value(p.Name), values)
	}
	return nil
}

// Batch returns the batch_size in the checkpoint's options, 0 if it is missing.
func (r *Reference) Batch() int {
	n, _ := numberOf(r.opt["batch_size"])
	return int(n)
}

// settings returns the options of the checkpoint that are plain values.
func (r *Reference) settings() map[string]any {
	out := map[string]any{}
	if r.entries == nil {
		return out
	}
	for k, v := range r.entries.All() {
		if name, ok := pickle.Text(k); ok && v != nil && same(v, v) {
			out[name] = v
		}
	}
	return out
}

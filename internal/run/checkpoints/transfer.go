package checkpoints

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"

	"vsetrain/data/text"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/placement"
	"vsetrain/internal/run/pretrained"
	"vsetrain/models"
)

// Source names weights to be converted.
type Source struct {
	Checkpoint string
	Vocab      string      // file; empty is the one beside the checkpoint
	Set        []string    // network options that a file of a reference repository does not contain, as for --set
	Warn       func(error) // receives warnings; may be nil
}

// Import converts a checkpoint of a reference repository into one of vsetrain. A vocabulary, if there is one, must fit
// and is recorded.
func Import(from Source, out string) (models.Weights, error) {
	return from.convert(func(m *models.Model, c models.Weights, v text.Tokenizer) error {
		return atomicfile.WriteFile(out, func(w io.Writer) error { return writeWeights(w, m, c, v) })
	})
}

// writeWeights writes weights as a checkpoint of vsetrain that records its vocabulary, if there is one.
func writeWeights(w io.Writer, m *models.Model, c models.Weights, v text.Tokenizer) error {
	info := models.Info{Vocabulary: c.VocabularyHash()}
	if v != nil {
		info.Vocabulary = v.Hash()
	}
	info.Epoch, info.Step, info.Score = c.Progress()
	return models.WriteCheckpoint(w, m, m.Instance.Dev, info, nil)
}

// Export converts a checkpoint into one of the network's reference repository; see models.ExportReference. The options
// of a checkpoint in a run directory are taken from the run.
func Export(from Source, out string, namespace bool) (models.Weights, error) {
	o := models.ExportOptions{Namespace: namespace}
	dir, cfg, err := runConfig(from.Checkpoint)
	if err != nil {
		return nil, err
	}
	if cfg != nil {
		o.Trained = referenceSettings(cfg, dir)
	}
	return from.convert(func(m *models.Model, c models.Weights, _ text.Tokenizer) error {
		return models.ExportReference(out, m, c, o)
	})
}

// runConfig returns the run directory of a checkpoint and its configuration, nil for a checkpoint outside a run.
func runConfig(in string) (dir string, _ *config.Config, err error) {
	dir, ok, err := pretrained.RunOf(in)
	if err != nil || !ok {
		return "", nil, err
	}
	c, err := config.Load(config.Request{File: filepath.Join(dir, runfs.ConfigName)})
	if err != nil {
		return dir, nil, fmt.Errorf("run directory %s: %w", dir, err)
	}
	return dir, &c.Config, nil
}

// referenceSettings are the settings of a run under the option names that the parsers of the references share, and the
// name of the loss, for which they have no option. data_name is left out: it selects networks there.
func referenceSettings(c *config.Config, dir string) map[string]any {
	s := map[string]any{
		"seed":          int64(c.Seed),
		"learning_rate": c.Optim.LR, "lr_update": c.Optim.LRUpdate, "grad_clip": c.Optim.Clip,
		"batch_size": c.Train.Batch, "num_epochs": c.Train.Epochs, "val_step": c.Train.ValStep,
		"log_step":    c.Train.LogStep,
		"logger_name": filepath.ToSlash(dir),
	}
	maps.Copy(s, c.Loss.ReferenceSettings())
	if o := c.Model.Traits().WarmupReference; o != "" {
		s[o] = c.Loss.WarmupEpochs
	}
	return s
}

// convert loads weights in float32 on one thread and hands them to write with their vocabulary, nil without.
func (s *Source) convert(write func(m *models.Model, c models.Weights, v text.Tokenizer) error) (models.Weights,
	error) {
	c, err := pretrained.OpenWeights(s.Checkpoint, s.Set, s.Warn)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	network, vocab := c.Network(), s.Vocab
	if vocab == "" {
		if vocab, err = pretrained.VocabularyOf(s.Checkpoint, &network); err != nil {
			return nil, err
		}
	}
	var v text.Tokenizer
	if vocab != "" {
		if v, err = inputs.LoadLexicon(vocab, &network); err == nil {
			err = pretrained.SameVocabulary(c, v)
		}
		if err != nil {
			return nil, err
		}
	}
	dev, err := placement.Open(device.Options{Kind: "cpu", Threads: 1, Precision: "fp32"}, "", nil)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	m, err := models.NewModel(dev, network, c.Sizes(), c.Learned()...)
	if err != nil {
		return nil, err
	}
	if err := c.Restore(m); err != nil {
		return nil, err
	}
	return c, write(m, c, v)
}

// RefuseOverwrite returns an error where path exists and force is not set.
func RefuseOverwrite(path string, force bool) error {
	if force {
		return nil
	}
	there, err := runfs.Exists(path)
	if there {
		err = fmt.Errorf("%s exists; replace it with --force", path)
	}
	return err
}

package checkpoints

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/place"
	"vsetrain/internal/run/trained"
	"vsetrain/models"
)

// Import converts a checkpoint of a reference repository into one of vsetrain. vocab, where given, must fit and is
// recorded.
func Import(in, out, vocab string) (models.Weights, error) {
	return convert(in, vocab, func(m *models.Model, c models.Weights, hash string) error {
		epoch, step, score := c.Progress()
		info := models.Info{Vocabulary: hash, Step: step, Epoch: epoch, Score: score}
		return atomicfile.WriteFile(out, func(w io.Writer) error { return models.WriteCheckpoint(w, m, info, nil) })
	})
}

// Export converts a checkpoint into one of the network's reference repository; see models.ExportReference. The options
// of a checkpoint in a run directory are those of the run.
func Export(in, out string, namespace bool) (models.Weights, error) {
	o := models.ExportOptions{Namespace: namespace}
	dir, ok, err := trained.RunOf(in)
	if err != nil {
		return nil, err
	}
	if ok {
		cfg, err := config.Load(config.Request{File: filepath.Join(dir, runfs.ConfigName)})
		if err != nil {
			return nil, fmt.Errorf("run directory %s: %w", dir, err)
		}
		o.Trained = referenceSettings(&cfg.Config, dir)
	}
	return convert(in, "", func(m *models.Model, c models.Weights, _ string) error {
		return models.ExportReference(out, m, c, o)
	})
}

// referenceSettings are the settings of a run under the names that the references' parsers share, and the name of the
// loss, for which they have no option. Where data lies is left to the references' defaults: data_name chooses networks
// there.
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

// convert loads weights in float32 on one thread and hands them to write.
func convert(in, vocab string, write func(m *models.Model, c models.Weights, hash string) error) (models.Weights,
	error) {
	c, err := models.OpenWeights(in)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	hash := c.VocabularyHash()
	if vocab != "" {
		opt := c.Network()
		v, err := inputs.LoadLexicon(vocab, &opt)
		if err != nil {
			return nil, err
		}
		if err := trained.SameVocabulary(c, v); err != nil {
			return nil, err
		}
		hash = v.Hash()
	}
	dev, err := place.Open(device.Options{Kind: "cpu", Threads: 1, Precision: "fp32"}, "", nil)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	m, err := models.NewModel(dev, c.Network(), c.Sizes(), c.Learned()...)
	if err != nil {
		return nil, err
	}
	if err := c.Restore(m); err != nil {
		return nil, err
	}
	return c, write(m, c, hash)
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

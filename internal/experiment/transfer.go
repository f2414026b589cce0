package experiment

import (
	"fmt"
	"io"

	"vsetrain/internal/device"
	"vsetrain/internal/runfs"
	"vsetrain/models"
)

// Import converts a checkpoint of a reference repository into one of vsetrain. vocab, where given, must fit and is recorded.
func Import(in, out, vocab string) (models.Weights, error) {
	return convert(in, vocab, func(m *models.Model, c models.Weights, hash string) error {
		epoch, step, score := c.Progress()
		info := models.Info{Vocabulary: hash, Step: step, Epoch: epoch, Score: score}
		return runfs.WriteFile(out, func(w io.Writer) error { return models.WriteCheckpoint(w, m, info, nil) })
	})
}

// Export converts a checkpoint into one of the network's reference repository; see models.ExportReference.
func Export(in, out string, namespace bool) (models.Weights, error) {
	return convert(in, "", func(m *models.Model, c models.Weights, _ string) error {
		return models.ExportReference(out, m, c, namespace)
	})
}

// convert loads weights in float32 on one thread and hands them to write.
func convert(in, vocab string, write func(m *models.Model, c models.Weights, hash string) error) (models.Weights, error) {
	c, err := models.OpenWeights(in)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	hash := c.VocabularyHash()
	if vocab != "" {
		opt := c.Network()
		v, err := loadLexicon(vocab, &opt)
		if err != nil {
			return nil, err
		}
		if err := sameVocabulary(c, v); err != nil {
			return nil, err
		}
		hash = v.Hash()
	}
	dev, err := OpenDevice(device.Options{Kind: "cpu", Threads: 1, Precision: "fp32"}, "")
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	m, err := models.NewModel(dev, c.Network(), c.Sizes())
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

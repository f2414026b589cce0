package checkpoints

import (
	"errors"
	"io"
	"path/filepath"

	"vsetrain/data/text"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/run/config"
	"vsetrain/models"
)

// HubRequest asks for a folder in the layout of the Hugging Face Hub.
type HubRequest struct {
	Source
	Dir     string   // folder to write
	Recalls []string // files of 'vsetrain eval --json' for these weights
	License string   // of the weights, as the Hub spells it; empty leaves it out
	Force   bool     // replace the files of an earlier export
}

// ExportHub writes weights, configuration, vocabulary, model card and, if the network has them, the encoders as ONNX
// models. The weights are written last: a folder without them is incomplete. It returns the files and a description of
// the checkpoint.
func ExportHub(r HubRequest) (files []string, found string, err error) {
	_, cfg, err := runConfig(r.Checkpoint)
	if err != nil {
		return nil, "", err
	}
	c, err := r.convert(func(m *models.Model, c models.Weights, v text.Tokenizer) error {
		if err := needsVocabulary(r.Checkpoint, v); err != nil {
			return err
		}
		recalls, err := readRecalls(r.Recalls, c, v)
		if err != nil {
			return err
		}
		names := append(append(onnxNames(), HubCard, HubConfig, models.HubName), vocabularyNames(v)...)
		f, err := newFolder(r.Dir, r.Force, names)
		if err != nil {
			return err
		}
		defer f.Abort()
		if err := f.addHub(r, cfg, m, c, v, recalls); err != nil {
			return err
		}
		files = f.Paths()
		return f.Commit()
	})
	if err != nil {
		return nil, "", err
	}
	return files, c.Describe(), nil
}

func (f folder) addHub(r HubRequest, cfg *config.Config, m *models.Model, c models.Weights, v text.Tokenizer,
	recalls []recallFile) error {
	if m.HasONNX() {
		e, err := m.ONNX()
		if err != nil {
			return err
		}
		d := describeONNX(m, v, e, models.HubName)
		if err := errors.Join(f.addEncoders(e), f.addJSON(ONNXPreprocessing, d)); err != nil {
			return err
		}
	} else {
		for _, name := range onnxNames() { // of an earlier export
			f.Remove(filepath.Join(r.Dir, name))
		}
	}
	var sections []string
	if cfg == nil { // a single file without its run
		known := config.Default()
		known.Model = c.Network()
		cfg, sections = &known, []string{"version", "model"}
	}
	settings, err := config.Portable(cfg, sections...)
	if err != nil {
		return err
	}
	card := modelCard{name: filepath.Base(filepath.Clean(r.Checkpoint)), license: r.License, model: m, weights: c,
		vocabulary: v.FileName(), recalls: recalls}
	if sections == nil {
		card.trained = cfg
	}
	return errors.Join(f.addVocabulary(v), f.Write(HubConfig, atomicfile.Bytes(settings)), f.Write(HubCard, card.write),
		f.Write(models.HubName, func(w io.Writer) error { return writeWeights(w, m, c, v) }))
}

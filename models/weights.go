package models

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"vsetrain/models/nn"
)

// Weights are trained parameters in a file of any format.
type Weights interface {
	// Network and Sizes describe the network of the weights.
	Network() Options
	Sizes() Dims
	// VocabularyHash identifies the vocabulary of the word vectors; "" if it is unknown.
	VocabularyHash() string
	// Learned are the parameters of the loss that trained the weights, for NewModel; most losses have none.
	Learned() []*nn.Param
	// Restore sets all parameters of a model.
	Restore(m *Model) error
	// File is the path of the file.
	File() string
	// Assumed names the options that the file lacks, the values assumed for them, and how to give others; "" if it
	// lacks none.
	Assumed() string
	// Describe returns the path and a summary of the contents, for people.
	Describe() string
	// Progress is the number of epochs and steps trained and the validation score (M-Recall), 0 if unknown.
	Progress() (epoch float64, step int64, score float64)
	Close() error
}

// OpenWeights opens a run directory, a checkpoint of vsetrain, or a .pth or .pth.tar of a reference repository. given
// replaces options of a repository's file; for a checkpoint of vsetrain it must agree with the options in the file.
func OpenWeights(path string, given Given) (Weights, error) {
	path, err := FindCheckpoint(path)
	if err != nil {
		return nil, err
	}
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".pth", ".pt", ".tar":
		return OpenReference(path, given)
	case ".safetensors":
		c, err := OpenCheckpoint(path)
		if err == nil {
			err = given.agree(c)
		}
		return c, err
	default:
		return nil, fmt.Errorf("%s: not a checkpoint: expected a run directory, .safetensors, .pth, .pt or .pth.tar, "+
			"found a file ending in %q", path, ext)
	}
}

// agree closes the checkpoint and returns an error if it has other options than g.
func (g Given) agree(c *Checkpoint) error {
	for x := range c.Info.Model.each() {
		if v, ok := g[x.key]; ok && v != x.value.Interface() {
			c.Close()
			return fmt.Errorf("%s: --set %s%s=%v: its weights were trained with %v; leave --set out, which is for "+
				"options that a file of a reference repository lacks", c.Path, modelSection, x.key, v, x.value)
		}
	}
	return nil
}

// OtherOptions lists the options in the file of weights that differ from o, with their values in the file;
// "" if none differs.
func OtherOptions(w Weights, o Options) string {
	r, reference := w.(*Reference)
	own := w.Network()
	var list []string
	for key, v := range own.differing(o) {
		key = strings.TrimPrefix(key, modelSection)
		if !reference || r.told[key] {
			list = append(list, fmt.Sprintf("%s%s=%v", modelSection, key, v))
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// Network, Sizes, VocabularyHash, File, Assumed, Progress and Describe implement Weights. A checkpoint of vsetrain
// holds all options.
func (c *Checkpoint) Network() Options       { return c.Info.Model }
func (c *Checkpoint) Sizes() Dims            { return c.Info.Dims }
func (c *Checkpoint) VocabularyHash() string { return c.Info.Vocabulary }
func (c *Checkpoint) File() string           { return c.Path }
func (c *Checkpoint) Assumed() string        { return "" }

func (c *Checkpoint) Progress() (float64, int64, float64) {
	return c.Info.Epoch, c.Info.Step, c.Info.Score
}

func (c *Checkpoint) Describe() string {
	s := fmt.Sprintf("%s: %s after step %d (epoch %.2f)", c.Path, c.Info.Model.Network, c.Info.Step, c.Info.Epoch)
	if c.Info.Score > 0 {
		s += fmt.Sprintf(", validation score %.2f", c.Info.Score)
	}
	return s
}

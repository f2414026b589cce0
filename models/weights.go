package models

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"vsetrain/models/nn"
)

// Weights are trained parameters in a file, of whatever format.
type Weights interface {
	// Network and Sizes describe the network the weights belong to.
	Network() Options
	Sizes() Dims
	// VocabularyHash identifies the vocabulary of the word vectors; "" where the file does not know it.
	VocabularyHash() string
	// Learned are the parameters of the loss that trained the weights, for NewModel; most have none.
	Learned() []*nn.Param
	// Restore sets the parameters of a model, all of them.
	Restore(m *Model) error
	// File is the path of the file.
	File() string
	// Assumed says which options of the network the file does not tell, what they are taken to be, and how to give
	// others; "" where it tells all.
	Assumed() string
	// Describe names the file and what it holds, for people.
	Describe() string
	// Progress is the number of epochs and steps trained and the validation score (M-Recall), as far as known.
	Progress() (epoch float64, step int64, score float64)
	Close() error
}

// OpenWeights opens a run directory, a checkpoint of vsetrain, or a .pth or .pth.tar of a reference repository. given
// are options in place of those in a file of a repository; a checkpoint of vsetrain knows its own.
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

// agree returns an error, and closes the checkpoint, where it has other options than those that are given.
func (g Given) agree(c *Checkpoint) error {
	for x := range c.Info.Model.each() {
		if v, ok := g[x.key]; ok && v != x.value.Interface() {
			c.Close()
			return fmt.Errorf("%s: --set %s%s=%v: its weights were trained with %v, as it says; leave --set out, "+
				"which is for options that a file of a reference repository does not tell", c.Path, modelSection,
				x.key, v, x.value)
		}
	}
	return nil
}

// OtherOptions lists the options of a network that weights were trained with other values of, as far as their file
// tells; "" where there are none.
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

// Assumed implements Weights: the description of a checkpoint tells all.
func (c *Checkpoint) Assumed() string { return "" }

// Network implements Weights.
func (c *Checkpoint) Network() Options { return c.Info.Model }

// Sizes implements Weights.
func (c *Checkpoint) Sizes() Dims { return c.Info.Dims }

// VocabularyHash implements Weights.
func (c *Checkpoint) VocabularyHash() string { return c.Info.Vocabulary }

// Progress implements Weights.
func (c *Checkpoint) Progress() (float64, int64, float64) {
	return c.Info.Epoch, c.Info.Step, c.Info.Score
}

// File implements Weights.
func (c *Checkpoint) File() string { return c.Path }

// Describe implements Weights.
func (c *Checkpoint) Describe() string {
	s := fmt.Sprintf("%s: %s after step %d (epoch %.2f)", c.Path, c.Info.Model.Network, c.Info.Step, c.Info.Epoch)
	if c.Info.Score > 0 {
		s += fmt.Sprintf(", validation score %.2f", c.Info.Score)
	}
	return s
}

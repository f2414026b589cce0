package models

import (
	"fmt"
	"path/filepath"
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
	// Describe names the file and what it holds, for people.
	Describe() string
	// Progress is the number of epochs and steps trained and the validation score (M-Recall), as far as known.
	Progress() (epoch float64, step int64, score float64)
	Close() error
}

// OpenWeights opens a run directory, a checkpoint of vsetrain, or a .pth or .pth.tar of a reference repository.
func OpenWeights(path string) (Weights, error) {
	path, err := FindCheckpoint(path)
	if err != nil {
		return nil, err
	}
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".pth", ".pt", ".tar":
		return OpenReference(path)
	case ".safetensors":
		return OpenCheckpoint(path)
	default:
		return nil, fmt.Errorf("%s: not a checkpoint: expected a run directory, .safetensors, .pth, .pt or .pth.tar, "+
			"found a file ending in %q", path, ext)
	}
}

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

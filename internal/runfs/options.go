package runfs

import "vsetrain/internal/options"

// Options names the run directory and what is written beside checkpoints and metrics.
type Options struct {
	// Dir is the run directory; empty lets the train command name it after the config file: runs/NAME.
	Dir         string `yaml:"dir" doc:"run directory; empty is runs/ and the name of the config file"`
	TensorBoard bool   `yaml:"tensorboard" doc:"write TensorBoard event files"`
}

// DefaultOptions returns an unnamed directory with TensorBoard events.
func DefaultOptions() Options { return Options{TensorBoard: true} }

// Validate returns an *options.Error for the first option that cannot be used.
func (o *Options) Validate() error { return options.Check(o) }

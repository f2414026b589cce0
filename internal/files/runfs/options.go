package runfs

import "vsetrain/internal/system/options"

// Options names the run directory and what is written beside checkpoints and metrics.
type Options struct {
	// Dir is the run directory; empty lets the train command name it after network and config file: runs/NETWORK-NAME.
	Dir         string `yaml:"dir" doc:"run directory; empty is runs/NETWORK-NAME after network and config file"`
	TensorBoard bool   `yaml:"tensorboard" doc:"write TensorBoard event files"`
}

// DefaultOptions returns an unnamed directory with TensorBoard events.
func DefaultOptions() Options { return Options{TensorBoard: true} }

// Validate returns an *options.Error for the first option that cannot be used.
func (o *Options) Validate() error { return options.Check(o) }

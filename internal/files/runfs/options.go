package runfs

import "vsetrain/internal/system/options"

// Options names the run directory and what a run writes there.
type Options struct {
	Dir         string `yaml:"dir" doc:"run directory; empty is runs/NETWORK-NAME after network and config file"`
	TensorBoard bool   `yaml:"tensorboard" doc:"write TensorBoard event files"`
	Lock        string `yaml:"lock" enum:"on|off" doc:"keep other processes from writing to the directory at the same time; off for file systems without locks"`
}

// Values of Options.Lock, and the environment variable that sets it for commands without a configuration.
const (
	LockOn       = "on"
	LockOff      = "off"
	LockVariable = "VSETRAIN_RUN_LOCK"
)

// DefaultOptions returns an unnamed directory with TensorBoard events and a lock.
func DefaultOptions() Options { return Options{TensorBoard: true, Lock: LockOn} }

// Validate returns an *options.Error for the first option that cannot be used.
func (o *Options) Validate() error { return options.Check(o) }

// Package sweep searches settings: it makes the trials of a sweep file, distributes them through a shared folder to any
// number of processes on any number of machines, and collects the results.
//
// A point is one choice on every axis. A trial is a point with a seed, and is a run directory:
//
//	DIR/trials/ID/trial.yaml     the resolved configuration; ID is its hash, so the same settings are the same trial
//	             /trial.json     point, seed and number
//	             /target         epochs to train to (asha raises it rung by rung)
//	             /result-N.json  the result after N epochs
//	             /failed.json    why the trial failed
//	             /claim.json     the process that works on it; its modification time is the heartbeat
//	             /trial.log      the output of the process
//	             /config.yaml, metrics.jsonl, checkpoints ...    the run
//	DIR/points/N.json            the points proposed by tpe, which depend on the results at that time
//
// There is no server and no database: every file is created or replaced as a whole, and the next job is a function of
// the files. goptuna would need a database, and its proposals are not functions of the files.
package sweep

import (
	"cmp"
	"vsetrain/internal/run/config"
)

// Methods of choosing points.
const (
	Grid   = "grid"   // all combinations
	Random = "random" // independent draws
	TPE    = "tpe"    // tree-structured Parzen estimator: draws where good points are dense
	ASHA   = "asha"   // asynchronous successive halving of random points
)

// Definition is a checked sweep file.
type Definition struct {
	File    string // for messages and relative paths
	Base    string // configuration of all trials; {name} is the choice of a named axis; "" is the defaults
	BaseAt  config.Source
	Set     []config.Setting
	Axes    []Axis
	Method  string
	Trials  int      // points of random, tpe and asha
	Seed    uint64   // of the draws of the method
	Seeds   []uint64 // of training: each point has a trial for each seed
	Metric  string
	Rungs   []int // asha: epochs after which trials are compared, ascending
	Factor  int   // asha: the best 1/Factor continue to the next rung
	Startup int   // tpe: random points before the first proposal
	Gamma   float64
	Launch  Launcher
	Dir     string
}

// Axis is one dimension of the search. Param names a key of the configuration, or Name a placeholder in Base.
type Axis struct {
	Param, Name string
	At          config.Source
	Values      []Value // ordered if Ordered is set, otherwise choices
	Ordered     bool
	From, To    float64 // of a continuous axis, whose Values are empty
	Log, Whole  bool
	When        []Condition
}

// Key returns the name of the axis in tables: the key of the configuration or the name.
func (a *Axis) Key() string { return cmp.Or(a.Param, a.Name) }

// Continuous reports whether the axis is an interval rather than a list.
func (a *Axis) Continuous() bool { return len(a.Values) == 0 }

// Value is one choice of an axis.
type Value struct {
	Text     string           // as tables and points show it
	Number   float64          // of an ordered axis
	Settings []config.Setting // the value of Param, or the settings of a named choice

	canonical string // the same for equal values with different spellings; "" on an interval
}

// Condition restricts an axis to points where an earlier axis has one of some values.
type Condition struct {
	Key    string
	Values []string // canonical
}

// Launcher says where the trials run.
type Launcher struct {
	Kind    string
	Workers int // trials at the same time; 0 is one for each GPU, or one
	Threads int // CPU threads of a trial; 0 divides the processors
	GPUs    []int
	// ProcsPerTrial processes or GPUsPerTrial GPUs divide the work of a trial (docs/distributed.md); 0 is one.
	ProcsPerTrial, GPUsPerTrial int

	Slurm      Slurm
	Kubernetes Kubernetes
	At         config.Source // of the section
}

// Kinds of launchers.
const (
	Local        = "local"
	OnSlurm      = "slurm"
	OnKubernetes = "kubernetes"
)

// Slurm are the resources of a job array.
type Slurm struct {
	Partition, Account, QOS, Time, Memory, GPUs, Constraint string
	CPUs, Throttle, SignalSeconds, Requeues                 int
	Extra                                                   []string // further #SBATCH options, "--nice=100"
	Setup                                                   []string // shell lines before the program
}

// Kubernetes are the resources of an Indexed Job.
type Kubernetes struct {
	Image, Namespace, CPU, Memory, GPUs, Volume, Mount, WorkingDir, ServiceAccount string
	Parallelism, Retries, GraceSeconds                                             int
}

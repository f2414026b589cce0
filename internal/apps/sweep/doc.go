// Package sweep searches settings: it makes trials of a sweep file, lets any number of processes on any number of
// machines share them out through a folder, and collects the result.
//
// A point is one choice of every axis; a trial is a point with a seed, and is a run directory under its own name:
//
//	DIR/trials/ID/trial.yaml     the resolved configuration; ID is its hash, so the same settings are the same trial
//	             /trial.json     point, seed and number
//	             /target         epochs the trial is to be trained to (asha raises it rung by rung)
//	             /result-N.json  what was measured after N epochs
//	             /failed.json    why the trial failed
//	             /claim.json     the process that works on it; its modification time is the heartbeat
//	             /trial.log      what the process printed
//	             /config.yaml, metrics.jsonl, checkpoints ...    the run
//	DIR/points/N.json            the points proposed by tpe, which depend on what was known at the time
//
// Why not goptuna for the proposals: it brings a database, and its proposals are not pure functions of the files
// (tpe.go).
//
// There is no server and no database: every file is created or replaced as a whole, and what to do next is a function
// of the files.
package sweep

import "vsetrain/internal/run/config"

// Methods of choosing points.
const (
	Grid   = "grid"   // all combinations
	Random = "random" // independent draws
	TPE    = "tpe"    // tree-structured Parzen estimator: draws where good points lie dense
	ASHA   = "asha"   // asynchronous successive halving of random points
)

// Definition is a sweep file, checked.
type Definition struct {
	File    string // the file, for messages and paths relative to it
	Base    string // configuration of all trials; {name} stands for the choice of a named axis; "" is the defaults
	BaseAt  config.Source
	Set     []config.Setting
	Axes    []Axis
	Method  string
	Trials  int      // points of random, tpe and asha
	Seed    uint64   // of the method's own draws
	Seeds   []uint64 // of training: a trial for each seed at each point
	Metric  string
	Rungs   []int // asha: epochs after which trials are compared, ascending
	Factor  int   // asha: one of that many continues to the next rung
	Startup int   // tpe: random points before the first proposal
	Gamma   float64
	Launch  Launcher
	Dir     string
}

// Axis is one dimension of the search. Param names a key of the configuration, or Name a placeholder in Base.
type Axis struct {
	Param, Name string
	At          config.Source
	Values      []Value // ordered where Ordered is set, else choices
	Ordered     bool
	From, To    float64 // of a continuous axis, where Values is empty
	Log, Whole  bool
	When        []Condition
}

// Key returns what the axis is called in tables: the key of the configuration or the name.
func (a *Axis) Key() string {
	if a.Param != "" {
		return a.Param
	}
	return a.Name
}

// Continuous reports whether the axis is an interval rather than a list.
func (a *Axis) Continuous() bool { return len(a.Values) == 0 }

// Value is one choice of an axis.
type Value struct {
	Text     string           // as tables and points show it
	Number   float64          // of an ordered axis
	Settings []config.Setting // what it sets; the value of Param, or the bundle of a named choice

	canonical string // equal values have one, however they are spelt; "" on an interval
}

// Condition lets an axis exist only where an earlier axis has one of some values.
type Condition struct {
	Key    string
	Values []string // canonical
}

// Launcher says where the trials run.
type Launcher struct {
	Kind    string
	Workers int // trials at the same time; 0 is one a GPU, or one
	Threads int // CPU threads of a trial; 0 shares the processors out
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
	// lines of shell before the program, "module load cuda"
	Setup []string
}

// Kubernetes are the resources of an Indexed Job.
type Kubernetes struct {
	Image, Namespace, CPU, Memory, GPUs, Volume, Mount, WorkingDir, ServiceAccount string
	Parallelism, Retries, GraceSeconds                                             int
}

package training

import (
	"time"

	"vsetrain/data/text"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/ranks"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/mlflow"
	"vsetrain/internal/run/placement"
	"vsetrain/models"
	"vsetrain/train"
)

// Plan describes a run that is about to start.
type Plan struct {
	RunDir        string
	Device        string
	Network       string
	Loss          string
	Parameters    int
	TrainCaptions int
	TrainImages   int
	DevImages     int
	Batches       int // per epoch
	Pairs         int // of a batch
	Epochs        int
	Resume        bool                  // an earlier run goes on
	Resumed       train.Position        // where it goes on; zero for a new run, and before the first checkpoint
	Choice        string                // how device.kind auto chose, empty if the device was named
	Memory        *placement.MemoryPlan // nil on the CPU
	MicroBytes    int64                 // of a step in micro-batches (train.Step.MicroBytes), 0 without
	Words         *models.Words         // where the word vectors began; nil where they were drawn
	Coverage      [2]text.Coverage      // of the training and the validation captions by the vocabulary
	Noise         *runfs.NoiseIndex     // which captions are wrong; nil where every caption has its image
}

// Request is what a training run needs to know beside its configuration.
type Request struct {
	Config *config.Config
	RunDir string
	Resume bool
	BLAS   string
	Env    runfs.Env // of this session; device and matrix product are filled in
	Now    func() time.Time
	// World is the job of several ranks that this process is one of; nil is one rank. All are given the same
	// configuration. The goroutine that calls Train makes all calls of the world.
	World    device.Job
	Observer Observer              // nil is Unobserved
	Copying  func(done, total int) // rows of features copied to the GPU; nil reports nothing
	// FreeDisk returns the bytes that may still be written below a folder, 0 when unknown; nil does not look.
	FreeDisk func(dir string) (int64, error)
	// FreeMemory returns the bytes of main memory that are available, 0 when unknown; nil does not look.
	FreeMemory func() int64
	// ProcessorTime returns the processor time that this process has had; nil does not look.
	ProcessorTime func() time.Duration
	// Saved is called with the step of each checkpoint as soon as it is written, and first, when the directory is
	// locked, with the records of the run so far, 0 without one; nil is not called.
	Saved func(step int64)
	// Tracking is the MLflow server that the records are sent to as well; without an address there is none.
	Tracking mlflow.Target
}

// first reports whether this process is rank 0, which alone has the run directory and tells of the run.
func (r *Request) first() bool { return ranks.IsRank0(r.World) }

// Observer sees the progress of a training run.
type Observer interface {
	// Started is called once before the first step.
	Started(Plan)
	Step(train.StepInfo)
	// Validating reports how far a validation is: images and captions encoded, then, by networks that score pairs,
	// pairs scored.
	Validating(what ValidationPhase, done, total int)
	Validation(train.ValidationInfo)
	// Warning is something a person should know while training goes on.
	Warning(error)
}

// ValidationPhase is what a validation is doing.
type ValidationPhase string

// The phases of a validation.
const (
	Encoding ValidationPhase = "encoding"
	Scoring  ValidationPhase = "scoring pairs"
)

// Unobserved is an Observer that nobody looks at. Others embed it to see a part of the progress.
type Unobserved struct{}

// Started, Step, Validating, Validation and Warning do nothing.
func (Unobserved) Started(Plan) {}

func (Unobserved) Step(train.StepInfo) {}

func (Unobserved) Validating(ValidationPhase, int, int) {}

func (Unobserved) Validation(train.ValidationInfo) {}

func (Unobserved) Warning(error) {}

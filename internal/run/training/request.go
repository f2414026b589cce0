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

// Request is what a training needs besides its configuration.
type Request struct {
	Config *config.Config
	RunDir string
	Resume bool
	BLAS   string
	Env    runfs.Env // of this session; device and matrix product are filled in
	Now    func() time.Time
	// World is the job whose rank this process is; nil means one rank. All ranks get the same configuration. The
	// goroutine that calls Train makes all calls of the job.
	World    device.Job
	Observer Observer              // nil is Unobserved
	Copying  func(done, total int) // rows of features copied to the GPU; nil reports nothing
	// FreeDisk returns the bytes that may still be written below a folder, 0 when unknown; nil does not look.
	FreeDisk func(dir string) (int64, error)
	// FreeMemory returns the bytes of main memory that are available, 0 when unknown; nil does not look.
	FreeMemory func() int64
	// ProcessorTime returns the processor time that this process has had; nil does not look.
	ProcessorTime func() time.Duration
	// Saved is called with the step of each checkpoint once it is on disk, and before the first step with the step that
	// the session continues from, 0 for a new run. It may be nil.
	Saved func(step int64)
	// Tracking is an MLflow server that also receives the records; without an address there is none.
	Tracking mlflow.Target
}

// first reports whether this process is rank 0. Only rank 0 has the run directory and reports on the run.
func (r *Request) first() bool { return ranks.IsRank0(r.World) }

// Observer sees the progress of a training run.
type Observer interface {
	// Started is called once before the first step.
	Started(Plan)
	Step(train.StepInfo)
	// Validating reports the progress of a validation: encoded images and captions, then, for networks that score
	// pairs, scored pairs.
	Validating(what ValidationPhase, done, total int)
	Validation(train.ValidationInfo)
	// Warning reports something the user should know during the training.
	Warning(error)
}

// ValidationPhase is what a validation is doing.
type ValidationPhase string

// The phases of a validation.
const (
	Encoding ValidationPhase = "encoding"
	Scoring  ValidationPhase = "scoring pairs"
)

// Unobserved is an Observer that ignores everything. Other observers embed it to handle only some events.
type Unobserved struct{}

// Started, Step, Validating, Validation and Warning do nothing.
func (Unobserved) Started(Plan) {}

func (Unobserved) Step(train.StepInfo) {}

func (Unobserved) Validating(ValidationPhase, int, int) {}

func (Unobserved) Validation(train.ValidationInfo) {}

func (Unobserved) Warning(error) {}

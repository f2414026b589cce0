package evaluate

import (
	"time"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/system/options"
)

// Request asks for the recalls of one checkpoint or stored score matrix, or of an ensemble of them.
type Request struct {
	Checkpoints []string
	Scores      []string // .npy files with scores of the split; they come after the checkpoints in an ensemble
	// Set are options of their networks ("model.scan.lambda=9") that a file of a repository does not contain.
	Set      []string
	Data     string           // folder; empty is the one that the first run was trained on
	PerImage options.PerSplit // captions per image, which the files must confirm
	Vocab    string           // file; empty is the run's own, or the data set's
	Split    string
	Protocol eval.Protocol
	Batch    int
	Device   device.Options
	BLAS     string
	// BF16First scores pairs in bf16 before fp32 if only ranks are asked for (eval.EncodeOptions.First).
	BF16First     bool
	ProcessorTime func() time.Duration // see eval.EncodeOptions
	Work          string               // folder for scored tiles, see eval.EncodeOptions
	// CompatBoxes gives GSMN the boxes that the evaluation of its repository uses (data.StoredBoxes), so that the
	// published numbers can be reproduced.
	CompatBoxes bool
	Judgements  []string // files and folders of judgements with several positives and of human ratings
	Diagnose    bool     // analyse the recalls
	SaveScores  string   // .npy to write the score matrix to
	SaveRanks   string   // file to write the rank of every query to, see eval.SaveRanks
	Progress    func(phase string, done, total int)
	Warn        func(error) // receives warnings; may be nil
	World       device.Job  // the job whose ranks divide the work; only rank 0 has the report; nil is one rank
}

// Report is the outcome.
type Report struct {
	Data, Split      string     // Data is empty if stored scores were ranked without their data set
	Measured         []Measured // checkpoints in the order of the request, then stored scores
	Images, Captions int
	Own              data.Groups // the captions of each image
	Digest           string      // SHA-256 of the captions, a line feed after each; "" without Data
	Device, Choice   string      // of the last checkpoint; how auto chose, empty if the device was named
	Memory           []string    // of a GPU: what stayed in its memory while pairs were scored, by checkpoint
	Results          []eval.Result
	Judged           []eval.JudgedMetrics  // for each set of judgements, on the whole split
	Outcomes         []eval.JudgedOutcomes // of their queries, in the same order
	People           []eval.HumanAgreement // for each set of ratings
	Diagnosis        *eval.Diagnosis       // nil if it was not asked for
}

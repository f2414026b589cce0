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
	// Set are options of their networks, "model.scan.lambda=9", that a file of a repository does not tell.
	Set      []string
	Data     string           // folder; empty is the one the first run was trained on
	PerImage options.PerSplit // captions of an image that the files must bear out
	Vocab    string           // file; empty is the run's own, or the data set's
	Split    string
	Protocol eval.Protocol
	Batch    int
	Device   device.Options
	BLAS     string
	// BF16First scores pairs in bf16 before fp32 where ranks alone are asked for (eval.EncodeOptions.First).
	BF16First     bool
	ProcessorTime func() time.Duration // see eval.EncodeOptions
	Work          string               // folder for scored tiles, see eval.EncodeOptions
	// CompatBoxes gives GSMN the boxes that its repository's evaluation gives it (data.StoredBoxes), so that its
	// published numbers can be reproduced.
	CompatBoxes bool
	Judgements  []string // files and folders of judgements with several positives and of people's ratings
	Diagnose    bool     // look where the recalls come from
	SaveScores  string   // .npy to write the score matrix to
	SaveRanks   string   // file to write the rank of every query to, see eval.SaveRanks
	Progress    func(phase string, done, total int)
	Warn        func(error) // something a person should know; nil reports nothing
	World       device.Job  // the job whose ranks divide the work, rank 0 having the report; nil is one rank
}

// Report is the outcome.
type Report struct {
	Data, Split      string     // Data is empty where stored scores were ranked without their data set
	Measured         []Measured // checkpoints in the order of the request, then stored scores
	Images, Captions int
	Own              data.Groups // the captions of each image
	Digest           string      // SHA-256 of the captions, a line feed after each; "" without Data
	Device, Choice   string      // of the last checkpoint; how auto chose, empty if the device was named
	Memory           []string    // of a GPU: what it kept while pairs were scored, by checkpoint
	Results          []eval.Result
	Judged           []eval.JudgedMetrics  // by each set of judgements, on the whole split
	Outcomes         []eval.JudgedOutcomes // of their queries, in the same order
	People           []eval.HumanAgreement // with each set of ratings
	Diagnosis        *eval.Diagnosis       // nil if it was not asked for
}

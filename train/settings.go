package train

import (
	"strings"

	"vsetrain/models"
)

// What is set of steps before the first one, and what is asked of them.

// Divide makes steps compute micro-batches of at most size pairs; 0 is the whole batch at once. A network that scores
// pairs encodes the whole batch, and scores so many captions at a time with all images (graph.CaptionBlocks). Divide is
// called before the first step, and before ReadFrom. read sets dst to the R·D values of a row of the feature file, for
// batches that do not bring features (FeedsItself), and is called by several goroutines; nil is none.
func Divide(s *Step, size int, read func(dst []float32, row int) error) (err error) {
	if size == 0 {
		return nil
	}
	if s.recorder != nil {
		s.recorder.divided = true
	}
	if _, ok := s.model.PairScorer(); ok {
		s.block = size
		s.ReadFrom(nil) // the feeder tells the lengths of captions, not bounds
		return nil
	}
	s.micro, err = newMicro(s.model, size, &s.Seed, s.opt.opt.scale, read)
	return err
}

// FeedsItself reports whether steps read the features of each micro-batch when they need them, so that batches need not
// bring any.
func FeedsItself(s *Step) bool { return s.micro != nil }

// MicroBytes is the memory that steps in micro-batches have taken so far beside parameters, gradients and optimiser: of
// what they keep of a whole batch, and of what they compute. It is 0 where batches are computed at once.
func MicroBytes(s *Step) int64 {
	if s.block > 0 {
		return s.model.Instance.SlabBytes()
	}
	return s.micro.bytes()
}

// Record sets whether steps are recorded where they can be (the default). The results are the same bits.
func (s *Step) Record(on bool) {
	if s.recorder != nil {
		s.recorder.never = !on
	}
}

// CallByCall returns why steps are not recorded on a device that records, empty if they are or the device does not.
func (s *Step) CallByCall() string {
	if s.recorder == nil {
		return ""
	}
	return s.recorder.why()
}

// Recordings returns how many steps were recorded, and how many ran as the replay of a recording.
func (s *Step) Recordings() (recorded, replayed int) {
	if s.recorder == nil {
		return 0, 0
	}
	return s.recorder.Recorded, s.recorder.Replayed
}

// Learned are the values of the scalars that the loss of a step learns, by name; nil without.
func Learned(s *Step) map[string]float64 {
	var out map[string]float64
	for _, l := range s.opt.limits {
		if out == nil {
			out = map[string]float64{}
		}
		var x [1]float64
		s.model.Instance.Dev.DownloadDoubles(x[:], l.value)
		out[strings.TrimPrefix(l.name, models.LearnedPart)] = x[0]
	}
	return out
}

// RanksOf are those of the job of a step, nil where there is one.
func RanksOf(s *Step) *Ranks { return s.ranks }

// Averages reports whether a moving average of the weights is kept.
func (s *Step) Averages() bool { return s.opt.average != nil }

// WithAverage calls a function while the network has the averaged weights; no step may run meanwhile.
func (s *Step) WithAverage(do func() error) error {
	s.ranks.complete()
	s.opt.average.exchange()
	defer s.opt.average.exchange()
	return do()
}

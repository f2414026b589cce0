package train

import (
	"strings"

	"vsetrain/models"
)

// Divide makes steps compute micro-batches of at most size pairs; 0 computes the whole batch at once. A PairScorer
// encodes the whole batch, and scores that many captions at a time with all images (graph.CaptionBlocks). Divide must
// be called before the first step and before ReadFrom. read sets dst to the R·D values of a row of the feature file for
// batches without features (FeedsItself); several goroutines call it. It may be nil.
func Divide(s *Step, size int, read func(dst []float32, row int) error) (err error) {
	if size == 0 {
		return nil
	}
	if s.recorder != nil {
		s.recorder.divided = true
	}
	if _, ok := s.model.PairScorer(); ok {
		s.block = size
		s.ReadFrom(nil) // the feeder must feed exact lengths, not bounds
		return nil
	}
	s.micro, err = newMicro(s.model, size, &s.Seed, s.opt.opt.scale, read)
	return err
}

// FeedsItself reports whether steps read the features of each micro-batch themselves, so that batches need not hold
// them.
func FeedsItself(s *Step) bool { return s.micro != nil }

// MicroBytes returns the memory that steps in micro-batches use in addition to parameters, gradients and optimiser. It
// is 0 if batches are not divided.
func MicroBytes(s *Step) int64 {
	if s.block > 0 {
		return s.model.Instance.SlabBytes()
	}
	return s.micro.bytes()
}

// Record sets whether steps are recorded if possible, which is the default. It does not change the results.
func (s *Step) Record(on bool) {
	if s.recorder != nil {
		s.recorder.never = !on
	}
}

// CallByCall returns why steps are not recorded on a device that can record. It returns "" if they are, or if the
// device cannot record.
func (s *Step) CallByCall() string {
	if s.recorder == nil {
		return ""
	}
	return s.recorder.why()
}

// Recordings returns the number of steps that were recorded, and of steps that replayed a recording.
func (s *Step) Recordings() (recorded, replayed int) {
	if s.recorder == nil {
		return 0, 0
	}
	return s.recorder.Recorded, s.recorder.Replayed
}

// Learned returns the scalars that the loss of a step learns, by name; nil if there are none.
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

// RanksOf returns the ranks that a step is one of, nil with one rank.
func RanksOf(s *Step) *Ranks { return s.ranks }

// Averages reports whether a moving average of the weights is kept.
func (s *Step) Averages() bool { return s.opt.average != nil }

// WithAverage calls do while the network has the averaged weights. No step may run in the meantime.
func (s *Step) WithAverage(do func() error) error {
	s.ranks.complete()
	s.opt.average.exchange()
	defer s.opt.average.exchange()
	return do()
}

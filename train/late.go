package train

import (
	"fmt"
	"math"

	"vsetrain/data"
	"vsetrain/internal/device"
	"vsetrain/models"
)

// late are steps on a device.Recorder: forward, loss, backward, norm, clip and update are one sequence of kernel calls without a look from
// the host in between, and what a step reports is fetched behind it. The first step of a shape is run call by call; the second is recorded, and the
// recording replayed by it and all later ones. What changes from step to step lies in device memory: inputs, lengths, scalars of the
// optimiser, counter of dropout. A loss or a norm that is not finite stops the update on the device (device.Recorder.Guard).
type late struct {
	dev     device.Recorder
	at      func(string) // says what calls belong to (device.Namer)
	never   bool         // run everything call by call
	failed  string       // why the device could not
	table   map[recordKey]*recorded
	started []startedStep // and not finished, at most device.FetchSlots
	slot    int           // of the next Fetch

	Recorded, Replayed int // steps, for tests
}

// recordKey is all that the calls of a step depend on beside addresses.
type recordKey struct {
	shape
	words, regions int // upper bounds of words and kept regions (models.Model.WordBound, RegionBound)
}

type recorded struct {
	rec        device.Recording // nil: not yet
	generation [2]int           // of session and device
}

type startedStep struct {
	p    *program
	lr   float64
	slot int
}

// maxRecordings bounds the memory that recordings take; batches of further shapes run call by call.
const maxRecordings = 256

func newLate(r device.Recorder) *late {
	l := &late{dev: r, at: func(string) {}, table: map[recordKey]*recorded{}}
	if n, ok := r.(device.Namer); ok {
		l.at = n.At
	}
	return l
}

// Record sets whether steps are recorded where they can be (the default). The results are the same bits.
func (s *Step) Record(on bool) {
	if s.late != nil {
		s.late.never = !on
	}
}

// CallByCall returns why steps are not recorded on a device that records, empty where they are or the device does not.
func (s *Step) CallByCall() string {
	switch {
	case s.late == nil:
		return ""
	case s.late.never:
		return "device.capture is never"
	}
	return s.late.failed
}

// Recordings returns how many steps were recorded, and how many ran as the replay of a recording.
func (s *Step) Recordings() (recorded, replayed int) {
	if s.late == nil {
		return 0, 0
	}
	return s.late.Recorded, s.late.Replayed
}

// Reserve compiles the graph of n pairs with captions of at most the given number of words, and so allocates the memory of the values of a step. semantic is the
// length of the semantic vectors of a loss that needs them.
func (s *Step) Reserve(n, longest, semantic int) error {
	sh := shape{n: n, bucket: models.Bucket(longest), semantic: semantic}
	if _, ok := s.model.PairScorer(); ok {
		lengths := make([]int32, n)
		for i := range lengths {
			lengths[i] = int32(max(1, longest/2))
		}
		sh.room = s.model.PairRoom(lengths, longest)
	}
	_, err := s.program(sh)
	return err
}

// Ahead reports whether steps can be started before the ones before them are finished.
func (s *Step) Ahead() bool { return s.late != nil }

// Start begins a step on a batch, which may be released when it returns. At most device.FetchSlots steps may be started and not finished.
func (s *Step) Start(b *data.Batch, lr float64, sum bool) error {
	l := s.late
	if len(l.started) == device.FetchSlots {
		return fmt.Errorf("training step: %d steps are not finished", len(l.started))
	}
	l.at("the inputs of a training step")
	defer l.at("")
	p, sh, err := s.prepare(b, sum)
	if err != nil {
		return err
	}
	if err := p.vm.Prepare(); err != nil {
		return fmt.Errorf("training step: %w", err)
	}
	g := p.gradients()
	if err := s.opt.uploadHypers(&p.hypers, g, lr); err != nil {
		return err
	}
	key := recordKey{shape: sh, words: s.model.WordBound(b.Lengths, b.L)}
	if b.RegionCounts != nil {
		key.regions = s.model.RegionBound(b.RegionCounts)
	}
	l.at(p.name)
	l.run(key, s.model.Session.Generation(), func() { s.calls(p, g) })
	views := []device.View{p.vm.View(p.loss).Slice(0, 3), s.opt.norm, p.vm.View(p.scores)}
	if p.captioning != nil {
		views = append(views, p.vm.View(p.captioning))
	}
	l.dev.Fetch(l.slot, views...)
	l.started = append(l.started, startedStep{p, lr, l.slot})
	l.slot = (l.slot + 1) % device.FetchSlots
	s.last = p
	return nil
}

// calls are the kernel calls of a step.
func (s *Step) calls(p *program, g *gradients) {
	p.vm.Run()
	s.late.at("the norm of the gradients, the clip or the update")
	s.opt.computeNorm(g)
	captioning := device.View{}
	if p.captioning != nil {
		captioning = p.vm.View(p.captioning)
	}
	s.late.dev.Guard(s.opt.coef, s.opt.norm, p.vm.View(p.loss).Slice(0, 1), captioning)
	s.opt.updateFrom(p.hypers, g)
}

// run does the calls of a step, by a recording where there is one.
func (l *late) run(key recordKey, session int, calls func()) {
	if l.never || l.failed != "" {
		calls()
		return
	}
	r, generation := l.table[key], [2]int{session, l.dev.Generation()}
	if r == nil && len(l.table) == maxRecordings {
		calls()
		return
	}
	if r == nil || r.generation != generation {
		if r != nil && r.rec != nil {
			l.dev.Forget(r.rec)
		}
		calls() // which may move memory: what is recorded next finds everything in its place
		l.table[key] = &recorded{generation: [2]int{session, l.dev.Generation()}}
		return
	}
	if r.rec == nil {
		rec, err := l.dev.Record(calls)
		if err != nil {
			l.failed = err.Error()
			calls()
			return
		}
		l.Recorded++
		r.rec = rec
	}
	l.Replayed++
	l.dev.Replay(r.rec)
}

// Finish waits for the oldest step that was started and returns what it reports.
func (s *Step) Finish() (StepResult, error) {
	l := s.late
	if len(l.started) == 0 {
		return StepResult{}, fmt.Errorf("training step: nothing was started")
	}
	st := l.started[0]
	l.started = append(l.started[:0], l.started[1:]...)
	x, err := l.dev.Fetched(st.slot)
	if err != nil {
		return StepResult{}, fmt.Errorf("training step: %w", err)
	}
	scores := x[4 : 4+st.p.vm.View(st.p.scores).N]
	r := StepResult{Loss: float64(x[0]), LossCaption: float64(x[1]), LossImage: float64(x[2]), GradNorm: float64(x[3]), LearningRate: st.lr}
	if st.p.captioning != nil {
		r.LossCaptioning = float64(x[len(x)-1])
		r.Loss += r.LossCaptioning
	}
	if !finite(r.Loss) || !finite(r.GradNorm) {
		s.opt.steps-- // nothing was updated
		if finite(r.Loss) {
			return r, &NotFinite{"the gradient norm", r.GradNorm}
		}
		return r, &NotFinite{"the loss", r.Loss}
	}
	n := int(math.Sqrt(float64(len(scores))))
	if cap(s.scored) < n {
		s.scored = make([]float32, n)
	}
	r.Gap = gap(scores, s.scored[:n], n)
	return r, nil
}

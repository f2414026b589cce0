package main

import "vsetrain/cmd/vsetrain/internal/ui"

// phases shows a progress bar for each phase of a job.
type phases struct {
	app  *app
	name string
	bar  *ui.Progress
}

// show reports that done of total parts of a phase are finished.
func (s *phases) show(phase string, done, total int) {
	if s.bar == nil || phase != s.name {
		s.close()
		// The parts that are finished at the first call do not count for the speed.
		s.name, s.bar = phase, s.app.NewProgress(phase, int64(done), int64(total))
	}
	s.bar.Set(int64(done), "")
}

func (s *phases) close() {
	s.bar.Close()
	s.bar = nil
}

package main

import "vsetrain/cmd/vsetrain/internal/ui"

// phases shows a job that goes through named phases one after another, a bar for each.
type phases struct {
	app  *app
	name string
	bar  *ui.Progress
}

// show reports that done of total parts of a phase are finished.
func (s *phases) show(phase string, done, total int) {
	if s.bar == nil || phase != s.name {
		s.close()
		// what is done at the first call says nothing about the speed
		s.name, s.bar = phase, s.app.NewProgress(phase, int64(done), int64(total))
	}
	s.bar.Set(int64(done), "")
}

func (s *phases) close() {
	s.bar.Close()
	s.bar = nil
}

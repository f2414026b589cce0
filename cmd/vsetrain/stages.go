package main

import "vsetrain/cmd/vsetrain/internal/ui"

// stages shows a job that goes through named stages one after another, a bar for each.
type stages struct {
	app  *app
	name string
	bar  *ui.Progress
}

// show reports that done of total parts of a stage are finished.
func (s *stages) show(stage string, done, total int) {
	if s.bar == nil || stage != s.name {
		s.close()
		s.name, s.bar = stage, s.app.NewProgress(stage, int64(done), int64(total)) // what is done at the first call says nothing about the speed
	}
	s.bar.Set(int64(done), "")
}

func (s *stages) close() {
	if s.bar != nil {
		s.bar.Close()
		s.bar = nil
	}
}

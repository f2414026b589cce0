package main

import "vsetrain/cmd/vsetrain/internal/ui"

// barLine is a progress display that may not have been started.
type barLine struct{ *ui.Progress }

func (b barLine) close() {
	if b.Progress != nil {
		b.Progress.Close()
	}
}

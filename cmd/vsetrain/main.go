package main

import (
	"fmt"
	"os"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/run/place"
)

func main() {
	if err := checkLimits(); err != nil {
		fmt.Fprintln(os.Stderr, "vsetrain:", err)
		os.Exit(exitFailure)
	}
	a := &app{Streams: ui.System(os.Getenv), Environ: os.Environ()}
	place.Hung = func(what string) { a.Warnf("%s", what) }
	os.Exit(a.run(os.Args[1:]))
}

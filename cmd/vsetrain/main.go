// Command vsetrain trains, evaluates and explores visual-semantic embedding networks for image-text retrieval.
package main

import (
	"fmt"
	"os"

	"vsetrain/cmd/vsetrain/internal/ui"
)

func main() {
	if err := checkLimits(); err != nil {
		fmt.Fprintln(os.Stderr, "vsetrain:", err)
		os.Exit(exitFailure)
	}
	a := &app{Streams: ui.System(os.Getenv), Environ: os.Environ()}
	os.Exit(a.run(os.Args[1:]))
}

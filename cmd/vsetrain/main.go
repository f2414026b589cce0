// Vsetrain trains, evaluates and explores visual-semantic embedding networks.
package main

import (
	"os"

	"vsetrain/cmd/vsetrain/internal/ui"
)

func main() {
	a := &app{Streams: ui.System(os.Getenv), Environ: os.Environ()}
	os.Exit(a.run(os.Args[1:]))
}

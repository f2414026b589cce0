package main

import (
	"path/filepath"

	"vsetrain/internal/compute/device/cuda/kernels"
	"vsetrain/internal/files/atomicfile"
)

// writePTX writes the kernels that are built into the program, one file for each family, for tools that read PTX (ptxas
// -v).
func writePTX(a *app, dir string) error {
	modules, err := kernels.Modules()
	if err != nil {
		return err
	}
	if err := atomicfile.MkdirAll(dir); err != nil {
		return err
	}
	n := 0
	for _, m := range modules {
		if err := atomicfile.WriteFile(filepath.Join(dir, m.Name+".ptx"), atomicfile.Bytes(m.PTX)); err != nil {
			return err
		}
		n += len(m.Entries)
	}
	a.Printf("%s: %d files of PTX with %d kernels\n", dir, len(modules), n)
	return nil
}

package main

import (
	"vsetrain/internal/compute/device/cuda/kernels"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/integrity"
)

// writePTX writes the kernels that are built into the program, one file for each family, for tools that read PTX (ptxas
// -v).
func writePTX(a *app, dir string) error {
	modules, err := kernels.Modules()
	if err != nil {
		return err
	}
	f, err := integrity.NewFolder(dir)
	if err != nil {
		return err
	}
	defer f.Abort()
	n := 0
	for _, m := range modules {
		if err := f.Write(m.Name+".ptx", atomicfile.Bytes(m.PTX)); err != nil {
			return err
		}
		n += len(m.Entries)
	}
	if err := f.Commit(); err != nil {
		return err
	}
	a.Printf("%s: %d files of PTX with %d kernels\n", dir, len(modules), n)
	return nil
}

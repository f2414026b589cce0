// Package mpi calls an MPI library that it loads at run time: one with the ABI of MPI 5, MPICH and compatible ones, or
// Open MPI. A build without dlopen (tag nodl) loads none.
package mpi

import (
	"debug/elf"
	"fmt"
	"slices"
	"strings"

	"vsetrain/internal/system/libraries"
)

// Kind is the binary interface of a library, which defines its handles.
type Kind string

// The interfaces.
const (
	ABI     Kind = "the ABI of MPI 5" // small constants
	MPICH   Kind = "MPICH"            // 32-bit constants (MPICH, Intel MPI, MVAPICH)
	OpenMPI Kind = "Open MPI"         // addresses of symbols
)

var wanted = libraries.Wanted{Name: "MPI", Setting: "VSETRAIN_MPI",
	Files:   []string{"libmpi_abi.so.1", "libmpi_abi.so.0", "libmpich.so.12", "libmpi.so.12", "libmpi.so.40"},
	Install: "apt install libmpich12, or pip install mpich"}

// Search looks for an MPI library: only the file that VSETRAIN_MPI names, or the files in the loader's path, of conda
// and of pip's package mpich. In a folder the ABI of MPI 5 comes first, then MPICH, then Open MPI, which only its own
// launcher can start. Search looks only for files and loads nothing. root is "/" except in tests.
func Search(root string, getenv func(string) string) libraries.Library {
	f := libraries.NewFolders(root, getenv)
	f.AddLoaderPath()
	f.AddConda("lib")
	f.AddPip("../..") // pip puts the files of mpich beside python3.N
	return libraries.Find(root, getenv, wanted, f)
}

// CallError is the error of a call of MPI, for example because another rank is gone.
type CallError struct{ Function, Text string }

func (e *CallError) Error() string { return e.Function + ": " + e.Text }

// KindOf tells the interface of a library from the symbols in its file, without loading it.
func KindOf(path string) (Kind, error) {
	var symbols []elf.Symbol
	f, err := elf.Open(path)
	if err == nil {
		defer f.Close()
		symbols, err = f.DynamicSymbols()
	}
	if err != nil {
		return "", fmt.Errorf("%s is not an MPI library: %w", path, err)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(symbols, func(s elf.Symbol) bool {
			return s.Name == name && s.Section != elf.SHN_UNDEF
		})
	}
	switch {
	case has("ompi_mpi_comm_world"):
		return OpenMPI, nil
	case !has("MPI_Init_thread"):
		return "", fmt.Errorf("%s is not an MPI library: it has no MPI_Init_thread", path)
	case strings.Contains(path, "libmpi_abi"): // MPICH 5 has the symbols of the ABI in its own library too
		return ABI, nil
	}
	return MPICH, nil
}

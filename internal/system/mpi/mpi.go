// Package mpi calls an MPI library that is loaded when it is needed: one with the ABI of MPI 5, MPICH and its
// relatives, or Open MPI. A build without dlopen (tag nodl) has none.
package mpi

import "vsetrain/internal/system/libraries"

var wanted = libraries.Wanted{Name: "MPI", Setting: "VSETRAIN_MPI",
	Files:   []string{"libmpi_abi.so.1", "libmpi_abi.so.0", "libmpich.so.12", "libmpi.so.12", "libmpi.so.40"},
	Install: "apt install libmpich12, or pip install mpich"}

// Search looks for an MPI library: the file that VSETRAIN_MPI names, and then no other, or those of the loader's path,
// of conda and of pip's package mpich. In a folder the ABI of MPI 5 comes first, then MPICH, then
// Open MPI, which only its own launcher can start. It looks for files only and loads nothing. root is "/" except in
// tests.
func Search(root string, getenv func(string) string) libraries.Library {
	f := libraries.NewFolders(root, getenv)
	f.AddLoaderPath()
	f.AddConda("lib")
	f.AddPip("../..") // pip puts the files of mpich beside python3.N
	return libraries.Find(root, getenv, wanted, f)
}

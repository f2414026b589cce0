//go:build (amd64 || arm64) && !nodl

package driver

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/ebitengine/purego"

	"vsetrain/internal/system/libraries"
)

// compilers are what libcuda compiles PTX with. It asks the loader for them by these names.
var compilers = []string{"libnvidia-ptxjitcompiler.so.1", "libnvidia-nvvm.so.4"}

// openCompilers opens the compilers in the folder of libcuda, because the loader may not look there: it gives libcuda
// a library that the process has already opened under that name. problem says why the first one was not opened, for the
// error of a libcuda that finds no compiler (missingCompiler).
func openCompilers(libcuda string) (problem error) {
	for i, name := range compilers {
		for _, dir := range foldersOf(libcuda) {
			file := filepath.Join(dir, name)
			if _, err := os.Stat(file); err != nil {
				continue
			}
			err := libraries.Trusted(file)
			if err == nil {
				_, err = purego.Dlopen(file, purego.RTLD_LAZY|purego.RTLD_LOCAL)
			}
			if err == nil {
				break
			}
			if i == 0 {
				problem = fmt.Errorf("%s was not opened: %w", file, err)
			}
		}
	}
	return problem
}

// foldersOf returns the folders of a library: of its name, and of the file that it links to.
func foldersOf(library string) []string {
	dirs := []string{filepath.Dir(library)}
	if file, err := filepath.EvalSymlinks(library); err == nil && filepath.Dir(file) != dirs[0] {
		dirs = append(dirs, filepath.Dir(file))
	}
	return dirs
}

// missingCompiler says what helps if libcuda does not find its compiler.
func missingCompiler(libcuda string, problem error, root string, getenv func(string) string) string {
	const remedy = "start the program with LD_LIBRARY_PATH=%s, where the loader finds it"
	for _, dir := range foldersOf(libcuda) {
		if _, err := os.Stat(filepath.Join(dir, compilers[0])); err == nil {
			if problem != nil {
				return fmt.Sprintf("%v; "+remedy+", if you trust it", problem, dir)
			}
			return fmt.Sprintf("it is in %s; "+remedy, dir, dir)
		}
	}
	w := libraries.Wanted{Name: "the compiler of PTX", Files: compilers[:1]}
	if lib := libraries.Find(root, getenv, w, system(root, getenv)); lib.Path != "" {
		dir := filepath.Dir(lib.Path)
		return fmt.Sprintf("there is one in %s, which must have the driver's version; "+remedy, dir, dir)
	}
	return "install the driver's package of it (Debian: libnvidia-ptxjitcompiler1; in a container: " +
		"NVIDIA_DRIVER_CAPABILITIES=compute,utility)"
}

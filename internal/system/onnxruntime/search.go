package onnxruntime

import (
	"fmt"
	"runtime"

	"vsetrain/internal/system/libraries"
)

// Setting is the environment variable that names the library.
const Setting = "VSETRAIN_ONNXRUNTIME"

const remedy = "install it, for example with 'pip install onnxruntime', or name the file libonnxruntime.so of " +
	"ONNX Runtime in " + Setting

// Search returns the files of the library, the best first: only the file that VSETRAIN_ONNXRUNTIME names, or the files
// in the loader's path, of conda and of pip's package onnxruntime. If there is none, the error says what to do. root is
// "/" except in tests.
func Search(root string, getenv func(string) string) ([]string, error) {
	f := libraries.NewFolders(root, getenv)
	f.AddLoaderPath()
	f.Add("loader path", "/usr/local/lib", "/opt/onnxruntime/lib", "/opt/homebrew/lib")
	f.AddConda("lib")
	f.AddPip("onnxruntime/capi")
	w := libraries.Wanted{Name: "ONNX Runtime", Setting: Setting, Files: []string{"libonnxruntime.so*"}}
	if runtime.GOOS == "darwin" {
		w.Files = []string{"libonnxruntime*.dylib"}
	}
	lib := libraries.Find(root, getenv, w, f)
	if lib.Path == "" {
		if len(lib.Refused) > 0 {
			return nil, fmt.Errorf("%w: %s", ErrNone, lib.Missing())
		}
		return nil, fmt.Errorf("%w in %d folders; %s", ErrNone, len(lib.Tried), remedy)
	}
	return lib.Paths(), nil
}

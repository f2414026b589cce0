//go:build (amd64 || arm64) && !nodl

package driver

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// Where libcuda finds no compiler the remedy names the folder of one that is there.
func TestMissingCompiler(t *testing.T) {
	const compiler = "libnvidia-ptxjitcompiler.so.1"
	beside := try.Files(t, map[string]string{"libcuda.so.1": "", compiler: ""})
	alone := try.Files(t, map[string]string{"libcuda.so.1": ""})
	system := try.Files(t, map[string]string{"usr/local/nvidia/lib64/" + compiler: ""})
	for _, c := range []struct {
		name, libcuda, root string
		problem             error
		want                string
	}{
		{"none", alone, t.TempDir(), nil, "install the driver's package of it"},
		{"beside, and not found", beside, t.TempDir(), nil,
			"it is in " + beside + "; start the program with LD_LIBRARY_PATH=" + beside},
		{"beside, and not opened", beside, t.TempDir(), errors.New("it is damaged"),
			"it is damaged; start the program with LD_LIBRARY_PATH=" + beside},
		{"in another folder", alone, system, nil, "there is one in /usr/local/nvidia/lib64, which must have the " +
			"driver's version; start the program with LD_LIBRARY_PATH=/usr/local/nvidia/lib64"},
	} {
		got := missingCompiler(filepath.Join(c.libcuda, "libcuda.so.1"), c.problem, c.root, env(nil))
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, expected %q", c.name, got, c.want)
		}
	}
}

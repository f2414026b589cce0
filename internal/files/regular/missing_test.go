package regular

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// A path with one name misspelt, at any depth, is told with the folder that it was looked for in and with the path that
// was meant; one that is like nothing proposes nothing.
func TestMissing(t *testing.T) {
	t.Chdir(t.TempDir())
	here := try.Get(os.Getwd())(t)
	const path = "runs/flickr/checkpoints/best.safetensors"
	try.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	try.Do(t, os.WriteFile(path, nil, 0o644))
	for depth, part := range strings.Split(path, "/") {
		names := strings.Split(path, "/")
		for i := range len(part) - 1 {
			if part[i] == part[i+1] {
				continue
			}
			names[depth] = part[:i] + part[i+1:i+2] + part[i:i+1] + part[i+2:]
			for n := depth + 1; n <= len(names); n++ {
				err := Missing{filepath.Join(names[:n]...)}
				want := filepath.Join(strings.Split(path, "/")[:n]...)
				if text := err.Error(); !strings.HasSuffix(text, "; did you mean "+want+"?") ||
					!strings.Contains(text, " in "+filepath.Join(append([]string{here}, names[:depth]...)...)+";") ||
					!errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s", text)
				}
			}
		}
	}
	for path, want := range map[string]string{"other": "other: no such file or directory in " + here,
		"/nosuch/x": "/nosuch/x: no such file or directory: there is no /nosuch"} {
		if text := (Missing{path}).Error(); text != want {
			t.Errorf("%q, want %q", text, want)
		}
	}
}

// Files are the same where their bytes are, whatever they are called.
func TestSame(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	a, b, link := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	for range 60 {
		x := make([]byte, r.IntN(3)*(1<<16)+r.IntN(3)-r.IntN(3)+4)
		for i := range x {
			x[i] = byte(r.Uint32())
		}
		y := bytes.Clone(x)
		switch r.IntN(4) {
		case 0:
			y[r.IntN(len(y))] ^= 1
		case 1:
			y = y[:len(y)-1]
		case 2:
			y[len(y)-1]++
		}
		try.Do(t, os.WriteFile(a, x, 0o644))
		try.Do(t, os.WriteFile(b, y, 0o644))
		if same := try.Get(Same(a, b))(t); same != bytes.Equal(x, y) {
			t.Errorf("%d and %d bytes: %v", len(x), len(y), same)
		}
	}
	try.Do(t, os.Symlink(a, link))
	if !try.Get(Same(a, link))(t) || !try.Get(Same(a, a))(t) {
		t.Error("a file is not the same as itself")
	}
	try.Refuses(Same(a, filepath.Join(dir, "d")))(t, "d")
}

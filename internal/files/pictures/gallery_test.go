package pictures

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

func TestGallery(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.jpg", "b.png", "sub/c.jpg", "odd"} {
		path := filepath.Join(dir, "pictures", name)
		try.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		try.Do(t, os.WriteFile(path, nil, 0o600))
	}
	try.Do(t, os.WriteFile(filepath.Join(dir, "secret.jpg"), nil, 0o600))
	g := try.Get(OpenGallery(filepath.Join(dir, "pictures")))(t)
	for id, want := range map[string]string{"a.jpg": "a.jpg", "a": "a.jpg", "b": "b.png", "sub/c": "sub/c.jpg",
		"odd": "odd"} {
		if path, err := g.Path(id); err != nil || path != filepath.Join(dir, "pictures", filepath.FromSlash(want)) {
			t.Errorf("%s: %s, %v", id, path, err)
		}
	}
	bad := []string{"../secret", "../secret.jpg", filepath.Join(dir, "secret.jpg"), "sub/../../secret", "", "sub",
		"none", "a.jpg\x00"}
	for _, id := range bad {
		if path, err := g.Path(id); err == nil {
			t.Errorf("%q is %s", id, path)
		} else if !strings.Contains(fmt.Sprintf("%v", err), fs.ErrNotExist.Error()) {
			t.Errorf("%q: %v", id, err)
		}
	}
	linked := os.Symlink(filepath.Join(dir, "secret.jpg"), filepath.Join(dir, "pictures", "link.jpg")) == nil
	for _, id := range append(bad, "link") {
		if f, err := g.Open(id); err == nil && (linked || id != "link") {
			f.Close()
			t.Errorf("%q is opened", id)
		}
	}
	try.Do(t, try.Get(g.Open("sub/c"))(t).Close())
	for _, path := range []string{filepath.Join(dir, "none"), filepath.Join(dir, "secret.jpg")} {
		if _, err := OpenGallery(path); err == nil {
			t.Errorf("%s is a gallery", path)
		}
	}
}

package pictures

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"vsetrain/lab/try"
)

func TestGallery(t *testing.T) {
	dir := try.Files(t, map[string]string{"pictures/a.jpg": "", "pictures/b.png": "", "pictures/sub/c.jpg": "",
		"pictures/odd": "", "secret.jpg": ""})
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
		} else if !errors.Is(err, fs.ErrNotExist) {
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
		try.Refuses(OpenGallery(path))(t, "folder of pictures: ")
	}
}

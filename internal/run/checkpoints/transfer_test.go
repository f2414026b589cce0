package checkpoints

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// A file to be written is there when a link is, and when it cannot be known.
func TestRefuseOverwrite(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "not", "mounted"), link); err != nil {
		t.Skip(err)
	}
	try.Fails(t, RefuseOverwrite(link, false), link, "--force")
	try.Fails(t, RefuseOverwrite(filepath.Join(dir, strings.Repeat("x", 5000)), false), "xxx")
	for path, force := range map[string]bool{link: true, filepath.Join(dir, "none"): false} {
		if err := RefuseOverwrite(path, force); err != nil {
			t.Errorf("%s, force %v: %v", path, force, err)
		}
	}
}

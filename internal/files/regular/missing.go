package regular

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"vsetrain/internal/system/options"
)

// Missing is the error for a path that does not exist; it is fs.ErrNotExist. It names the folder that lacks it, and the
// most similar name there.
type Missing struct{ Path string }

// Unwrap returns fs.ErrNotExist.
func (Missing) Unwrap() error { return fs.ErrNotExist }

func (m Missing) Error() string {
	path := filepath.Clean(m.Path)
	there, name := filepath.Dir(path), filepath.Base(path)
	entries, err := os.ReadDir(there)
	for err != nil && filepath.Dir(there) != there { // up to the last folder that exists
		there, name = filepath.Dir(there), filepath.Base(there)
		entries, err = os.ReadDir(there)
	}
	text := m.Path + ": no such file or directory"
	first := filepath.Join(there, name)
	if first != path {
		text += ": there is no " + first
	}
	if full, err := filepath.Abs(there); err == nil && !filepath.IsAbs(path) {
		text += " in " + full
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	if near := options.Nearest(name, names); near != "" {
		meant := filepath.Join(there, near) + strings.TrimPrefix(path, first)
		if _, err := os.Stat(meant); err == nil {
			text += "; did you mean " + meant + "?"
		}
	}
	return text
}

package regular

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"vsetrain/internal/system/options"
)

// Missing is the error of a path at which there is nothing; it is fs.ErrNotExist. It says where the path was looked
// for, and which name there is most like it.
type Missing struct{ Path string }

// Unwrap returns fs.ErrNotExist.
func (Missing) Unwrap() error { return fs.ErrNotExist }

// Error implements error.
func (m Missing) Error() string {
	path := filepath.Clean(m.Path)
	there, name := filepath.Dir(path), filepath.Base(path)
	entries, err := os.ReadDir(there)
	for err != nil && filepath.Dir(there) != there { // to the last folder that is there
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

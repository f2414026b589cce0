package integrity

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vsetrain/internal/files/regular"
)

// Mark distinguishes versions of a file without reading all of it.
type Mark struct {
	Size   int64  `json:"size"`
	Ends   string `json:"ends"`             // of the SHA-256 of the first and the last 64 KiB
	SHA256 string `json:"sha256,omitempty"` // of the whole file, if the manifest of the folder has it
}

// String is what processes on several machines compare: without the SHA-256, because not all need have the manifest.
func (m Mark) String() string { return fmt.Sprintf("%d bytes %s", m.Size, m.Ends) }

// Same reports whether two files with these marks may have the same content.
func (m Mark) Same(o Mark) bool {
	return m.Size == o.Size && m.Ends == o.Ends && (m.SHA256 == "" || o.SHA256 == "" || m.SHA256 == o.SHA256)
}

// MarkOf returns the mark of a file, without a SHA-256.
func MarkOf(path string) (Mark, error) {
	f, size, err := regular.Open(path)
	if err != nil {
		return Mark{}, err
	}
	defer f.Close()
	const end = 64 << 10
	h := sha256.New()
	for _, from := range []int64{0, max(0, size-end)} {
		if _, err := io.Copy(h, io.NewSectionReader(f, from, end)); err != nil {
			return Mark{}, err
		}
	}
	return Mark{Size: size, Ends: fmt.Sprintf("%x", h.Sum(nil)[:6])}, nil
}

// Marks are the marks of the files of a folder, by name: the fingerprint of a data set.
type Marks map[string]Mark

// MarksOf returns the marks of the files in a folder that accept returns true for. It leaves out hidden files, folders
// and broken links.
func MarksOf(dir string, accept func(name string) bool) (Marks, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	m, err := Read(dir)
	if err != nil {
		return nil, err
	}
	all := Marks{}
	for _, e := range entries {
		name := e.Name()
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if strings.HasPrefix(name, ".") || !accept(name) || errors.Is(err, fs.ErrNotExist) ||
			err == nil && !info.Mode().IsRegular() {
			continue
		}
		var mark Mark
		if err == nil {
			mark, err = MarkOf(path)
		}
		if err != nil {
			return nil, err
		}
		if s, ok := m.sum(name); ok && s.Size == mark.Size && sameTime(info, s) {
			mark.SHA256 = s.SHA256
		}
		all[name] = mark
	}
	return all, nil
}

// Changed returns the names of the files that are in both and have another mark now, sorted.
func (m Marks) Changed(now Marks) (names []string) {
	for name, mark := range m {
		if other, ok := now[name]; ok && !mark.Same(other) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

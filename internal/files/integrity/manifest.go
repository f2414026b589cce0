package integrity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/journal"
	"vsetrain/internal/files/regular"
)

// ManifestName is the name of the manifest in its folder.
const ManifestName = "vsetrain-manifest.json"

const manifestFormat = "vsetrain manifest 1"

// maxManifest bounds a manifest in bytes. It has eight bytes for each MiB of data.
const maxManifest = 64 << 20

// Manifest holds the sums of files of one folder, by name. It is a sealed JSON object.
type Manifest struct {
	Format  string         `json:"format"`
	Files   map[string]Sum `json:"files"`
	Writing []string       `json:"writing,omitempty"` // names of files that Folder is about to write
}

// Read returns the manifest of a folder, nil if it has none.
func Read(dir string) (*Manifest, error) {
	path := filepath.Join(dir, ManifestName)
	b, err := regular.ReadFile(path, maxManifest, "a manifest")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	m := new(Manifest)
	sealed := false
	if err == nil {
		b, sealed, err = Unseal(b)
	}
	if err == nil && !sealed {
		err = ErrDamaged
	}
	if err == nil {
		err = json.Unmarshal(b, m)
	}
	if err == nil && m.Format != manifestFormat {
		err = fmt.Errorf("expected the format %q, found %q", manifestFormat, m.Format)
	}
	for name, s := range m.Files {
		if err == nil && (s.Size < 0 || int64(len(s.Blocks)) != 8*((s.Size+BlockSize-1)/BlockSize)) {
			err = fmt.Errorf("%s: %d bytes do not have %d checksums of blocks", name, s.Size, len(s.Blocks)/8)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; record the files as they are now with 'vsetrain verify --record %s'", path, err,
			dir)
	}
	return m, nil
}

// sum returns the sum of a file; a nil manifest has none.
func (m *Manifest) sum(name string) (Sum, bool) {
	if m == nil {
		return Sum{}, false
	}
	s, ok := m.Files[name]
	return s, ok
}

// Names returns the names of the files, sorted.
func (m *Manifest) Names() []string { return slices.Sorted(maps.Keys(m.Files)) }

// CheckOpen compares size, first and last block of files of a folder with its manifest, and returns an error if they
// differ. changed are the files that were only written at another time, like a copy. CheckOpen ignores files that do
// not exist or that the manifest does not list.
func CheckOpen(dir string, names ...string) (changed []string, err error) {
	m, err := Read(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		s, ok := m.sum(name)
		if !ok || s.Size == 0 {
			continue
		}
		path := filepath.Join(dir, name)
		same, err := quickly(path, s)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("%s is not the file of its manifest: %w; bring that file back, or, if it was "+
				"changed on purpose, record it with 'vsetrain verify --record %s'", path, err, dir)
		case !same:
			changed = append(changed, name)
		}
	}
	return changed, nil
}

// Commit commits a set together with the manifests of its folders, so that files always match the manifest, even after
// a power failure. Sums come from the Summers that files were written through (atomicfile.File.Tee); other files are
// read. If two processes commit to a folder at the same moment, the manifest may lack files of one of them.
func Commit(set *atomicfile.Set) error { return commit(set, true) }

func commit(set *atomicfile.Set, begin bool) error {
	defer set.Abort()
	if err := set.Prepare(); err != nil {
		return err
	}
	manifests := map[string]*Manifest{} // by folder, nil for a folder without one
	of := func(path string) (*Manifest, error) {
		dir := filepath.Dir(path)
		m, ok := manifests[dir]
		if ok {
			return m, nil
		}
		m, err := Read(dir)
		if m == nil && err == nil && begin {
			m = &Manifest{Files: map[string]Sum{}}
		}
		manifests[dir] = m
		return m, err
	}
	for _, path := range set.Gone() {
		m, err := of(path)
		if err != nil {
			return err
		}
		if m != nil {
			delete(m.Files, filepath.Base(path))
		}
	}
	for _, f := range set.Files() {
		m, err := of(f.Path())
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		if m.Files[filepath.Base(f.Path())], err = sumOfNew(f); err != nil {
			return atomicfile.Explain("write", f.Path(), err)
		}
		m.Writing = nil
	}
	for dir, m := range manifests {
		if m == nil {
			continue
		}
		f, err := m.create(dir)
		if err != nil {
			return err
		}
		set.AddFirst(f)
	}
	return set.Commit()
}

// sumOfNew returns the sum of a file that has been written and still has its hidden name.
func sumOfNew(f *atomicfile.File) (Sum, error) {
	if s, ok := f.Teed().(*Summer); ok {
		info, err := os.Stat(f.Hidden())
		if err != nil {
			return Sum{}, err
		}
		return s.Sum(info.ModTime()), nil
	}
	return SumOf(f.Hidden())
}

// create prepares the file of a manifest.
func (m *Manifest) create(dir string) (*atomicfile.File, error) {
	m.Format = manifestFormat
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	return atomicfile.New(filepath.Join(dir, ManifestName), atomicfile.Bytes(Seal(append(b, '\n'))))
}

// WriteFile replaces one file and updates the manifest of its folder, if there is one.
func WriteFile(path string, write func(io.Writer) error) error {
	f, err := atomicfile.New(path, write)
	if err != nil {
		return err
	}
	return KeepFile(f)
}

// KeepFile commits one file and updates the manifest of its folder, if there is one.
func KeepFile(f *atomicfile.File) error {
	set := &atomicfile.Set{}
	set.Add(f)
	return commit(set, false)
}

// Record writes the manifest of a folder with its files as they are now.
func Record(dir string) (*Manifest, error) {
	names, err := listed(dir)
	if err != nil {
		return nil, err
	}
	m := &Manifest{Files: map[string]Sum{}}
	for _, name := range names {
		if m.Files[name], err = SumOf(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	f, err := m.create(dir)
	if err != nil {
		return nil, err
	}
	return m, f.Commit()
}

// listed returns the names of the files of a folder that its manifest lists: regular files that are neither hidden nor
// journals, which grow and have checksums of their own.
func listed(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, journal.Ending) || name == ManifestName {
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			names = append(names, name)
		}
	}
	return names, nil
}

// Package verify reads files completely and reports which of them are as they were written: runs, data sets, folders of
// sweeps, single files. It compares a file with the manifest of its folder (integrity.Manifest), with checksums in the
// file itself (checkpoints, events, sealed texts), or with the last checkpoint of its run (log, vocabulary).
package verify

import (
	"archive/zip"
	"bytes"
	"context"
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
	"unicode/utf8"

	"vsetrain/data/text"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/journal"
	"vsetrain/internal/files/regular"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/files/safetensors"
	"vsetrain/internal/files/tfevents"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/pretrained"
	"vsetrain/models"
)

// Report is the outcome for all files below a path.
type Report struct {
	Whole   int      // files as they were written
	Without []string // files without a checksum: of other programs, or of earlier versions
	Damaged []Damage
}

// Damage is a file that is not as it was written.
type Damage struct {
	Path string
	What string // place in the file and kind of damage
}

// errNothing says that there is no checksum to compare a file with.
var errNothing = errors.New("no checksum")

// Path verifies a file, or all files below a folder except hidden ones. progress receives the MiB of the verified files
// and of all files. An error means that the path cannot be read at all, or that ctx ended.
func Path(ctx context.Context, path string, progress func(phase string, done, total int)) (*Report, error) {
	r := &Report{}
	v := &verifier{manifests: map[string]*integrity.Manifest{}}
	type found struct {
		path string
		size int64
	}
	var files []found
	var runs []string
	total, done := int64(0), int64(0)
	if real, err := filepath.EvalSymlinks(path); err == nil && real != filepath.Clean(path) {
		if info, err := os.Stat(real); err == nil && info.IsDir() { // links below it are not followed
			path = real
		}
	}
	err := filepath.WalkDir(path, func(at string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case at != path && strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case e.IsDir():
			r.missing(at, v.manifest(at))
			if there, err := runfs.Exists(filepath.Join(at, runfs.CheckpointsName)); err == nil && there {
				runs = append(runs, at)
			}
			return nil
		}
		if info, err := os.Stat(at); err == nil && info.Mode().IsRegular() { // a link may lead to a folder
			files = append(files, found{at, info.Size()})
			total += info.Size()
		}
		return nil
	})
	outcome := map[string]error{} // by path
	for _, f := range files {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return r, err
		}
		progress("verify", int(done>>20), int(total>>20))
		outcome[f.path] = v.file(f.path)
		done += f.size
	}
	for _, dir := range runs {
		if outcome[filepath.Join(dir, runfs.CheckpointsName, runfs.LastName)] == nil {
			misfits(dir, outcome)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(outcome)) {
		r.add(path, outcome[path])
	}
	return r, err
}

// misfits adds the files of a run that do not belong to its last checkpoint to the outcome.
func misfits(dir string, outcome map[string]error) {
	wrong, err := pretrained.Misfits(dir)
	if err != nil {
		wrong = map[string]string{filepath.Join(dir, runfs.CheckpointsName, runfs.LastName): err.Error()}
	}
	for path, what := range wrong {
		if was, there := outcome[path]; !there || was == nil || errors.Is(was, errNothing) {
			outcome[path] = errors.New(what)
		}
	}
}

// add adds the outcome of a file to the report.
func (r *Report) add(path string, err error) {
	switch {
	case err == nil:
		r.Whole++
	case errors.Is(err, errNothing):
		r.Without = append(r.Without, path)
	default:
		what := strings.TrimPrefix(strings.TrimPrefix(err.Error(), path), ": ")
		r.Damaged = append(r.Damaged, Damage{path, what})
	}
}

// missing finds the files that a manifest lists but its folder lacks.
func (r *Report) missing(dir string, m *integrity.Manifest) {
	if m == nil {
		return
	}
	for _, name := range m.Names() {
		if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			r.Damaged = append(r.Damaged, Damage{filepath.Join(dir, name), "is missing; the manifest lists it"})
		}
	}
}

// verifier remembers the manifests of folders.
type verifier struct {
	manifests map[string]*integrity.Manifest
}

// manifest returns the manifest of a folder, nil if there is none or it is damaged.
func (v *verifier) manifest(dir string) *integrity.Manifest {
	m, ok := v.manifests[dir]
	if !ok {
		m, _ = integrity.Read(dir)
		v.manifests[dir] = m
	}
	return m
}

// maxText is the maximum size of texts that are read at once, in bytes.
const maxText = 64 << 20

// file verifies one file.
func (v *verifier) file(path string) error {
	dir, name := filepath.Split(path)
	dir = filepath.Clean(dir)
	if name == integrity.ManifestName {
		_, err := integrity.Read(dir)
		return err
	}
	if m := v.manifest(dir); m != nil {
		if should, ok := m.Files[name]; ok {
			return compare(path, should)
		}
	}
	switch ext := filepath.Ext(name); {
	case strings.HasSuffix(name, journal.Ending):
		return journal.Verify(path)
	case name == runfs.MetricsName:
		return log(path)
	case strings.HasPrefix(name, tfevents.Prefix):
		_, err := tfevents.Read(path)
		return err
	case ext == ".safetensors":
		return tensors(path)
	case slices.Contains([]string{".tar", ".pth", ".pt", ".bin"}, ext):
		return archive(path)
	case name == "vocab.json", name == "vocab.txt":
		return vocabulary(path)
	case name == text.TokenizerConfig: // the hash of the vocabulary covers it
		return vocabulary(filepath.Join(filepath.Dir(path), "vocab.txt"))
	case slices.Contains([]string{".json", ".yaml", ""}, ext):
		return plainText(path)
	}
	return errNothing
}

// compare compares a file with its entry in a manifest.
func compare(path string, should integrity.Sum) error {
	now, err := integrity.SumOf(path)
	if err != nil {
		return err
	}
	if what := now.Differs(should); what != "" {
		if !now.Time.Equal(should.Time) {
			what += fmt.Sprintf("; it was written at %s, the manifest says %s", now.Time.Format("2006-01-02 15:04:05"),
				should.Time.Format("2006-01-02 15:04:05"))
		}
		return errors.New(what)
	}
	return nil
}

// tensors verifies a safetensors file.
func tensors(path string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sealed, err := f.Verify()
	if err == nil && !sealed {
		return errNothing
	}
	return err
}

// archive verifies a checkpoint of PyTorch, which is a zip archive with a CRC-32 for each member, or an older form
// without.
func archive(path string) error {
	if err := regular.Check(path); err != nil {
		return err
	}
	z, err := zip.OpenReader(path)
	if errors.Is(err, zip.ErrFormat) {
		return errNothing
	}
	if err != nil {
		return err
	}
	defer z.Close()
	for _, f := range z.File {
		r, err := f.Open()
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			r.Close()
		}
		if err != nil {
			return fmt.Errorf("member %s: %w", f.Name, err)
		}
	}
	return nil
}

// plainText verifies a sealed text.
func plainText(path string) error {
	b, err := regular.ReadFile(path, maxText, "a text")
	if errors.Is(err, regular.ErrLarge) {
		return errNothing
	}
	if err != nil {
		return err
	}
	_, sealed, err := integrity.Unseal(b)
	if strings.HasSuffix(path, "_extractor.json") { // whose sha256 is the SHA-256 of a model
		sealed, err = false, nil
	}
	switch {
	case err != nil || sealed:
		return err
	case filepath.Ext(path) == ".json" && !json.Valid(b):
		return errors.New("is not JSON")
	case bytes.IndexByte(b, 0) >= 0 || !utf8.Valid(b):
		return errors.New("is not text")
	}
	return errNothing
}

// ofRun returns the description of the last, or the best, checkpoint of the run that a file belongs to, or of the
// weights beside it in a folder in the Hub's layout.
func ofRun(path string) (models.Info, error) {
	for _, name := range []string{runfs.CheckpointsName + "/" + runfs.LastName,
		runfs.CheckpointsName + "/" + runfs.BestName, models.HubName} {
		info, err := models.ReadInfo(filepath.Join(filepath.Dir(path), name))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return info, err
		}
	}
	return models.Info{}, errNothing
}

// log verifies the lines of metrics.jsonl that the last checkpoint has counted.
func log(path string) error {
	info, err := ofRun(path)
	if err != nil {
		return err
	}
	var counted runfs.Counted
	if info.Train != nil {
		if err := json.Unmarshal(info.Train, &counted); err != nil {
			return err
		}
	}
	if counted.SHA256 == "" {
		return errNothing
	}
	lines, err := counted.Check(path, func([]byte, int) (bool, error) { return true, nil })
	if err == nil && lines < counted.Lines {
		err = fmt.Errorf("has %d lines, the last checkpoint was written after %d", lines, counted.Lines)
	}
	return err
}

// vocabulary verifies the vocabulary of a run.
func vocabulary(path string) error {
	info, err := ofRun(path)
	if err != nil {
		return err
	}
	v, err := inputs.LoadLexicon(path, &info.Model)
	if err == nil && v.Hash() != info.Vocabulary {
		err = fmt.Errorf("holds %d words, but not those that the weights were trained with", v.Len())
	}
	return err
}

package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"os"
)

// runsFile is the archive of the runs that pages show: STUDY/SETTING/sSEED/ with the settings, the validations and the
// measures of the test split of each. Its files are stored, not compressed: git compresses the archive itself, and of
// its next version it keeps only what changes.
const runsFile = "docs/log/runs.zip"

// mostRuns is the maximum size of all files of the archive.
const mostRuns = 256 << 20

// unpack writes the files of an archive of runs below a new folder.
func unpack(archive, folder string) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	defer z.Close()
	size := uint64(0)
	for _, f := range z.File {
		if !fs.ValidPath(f.Name) || !f.Mode().IsRegular() || f.Method != zip.Store {
			return fmt.Errorf("%s: %q is not a stored file with a relative path; pack it anew", archive, f.Name)
		}
		if size += min(f.UncompressedSize64, mostRuns+1); size > mostRuns {
			return fmt.Errorf("%s: %q and the files before it have more than %d bytes", archive, f.Name, mostRuns)
		}
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	if err := os.CopyFS(folder, z); err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	return nil
}

// packed is the archive of the files of a folder, sorted by name and without times: the same files give the same bytes.
func packed(folder string) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	files := os.DirFS(folder)
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if b.Len()+len(data) > mostRuns || !d.Type().IsRegular() {
			return fmt.Errorf("%s: %s is not a regular file, or exceeds the limit of %d bytes", folder, name, mostRuns)
		}
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err == nil {
			_, err = f.Write(data)
		}
		return err
	})
	if err = cmp.Or(err, w.Close()); err != nil { // Close writes the end of the archive
		return nil, err
	}
	return b.Bytes(), nil
}

package runfs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// How far FindRuns looks.
const (
	FindDepth  = 5      // folders below the root
	findFolder = 20_000 // folders in all
)

// FindRuns returns the run directories in a folder, down to FindDepth, as slash-separated paths relative to it, sorted
// by name; "." is the folder itself. It does not search runs, hidden folders and unreadable folders. full reports that
// the folder has too many folders to search all.
func FindRuns(root string) (runs []string, full bool) {
	folders := 0
	var scan func(dir, id string, depth int)
	scan = func(dir, id string, depth int) {
		if folders++; folders > findFolder {
			full = true
			return
		}
		if st, err := os.Stat(filepath.Join(dir, ConfigName)); err == nil && st.Mode().IsRegular() {
			runs = append(runs, id)
			return
		}
		if depth == FindDepth {
			return
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return
		}
		for _, e := range entries {
			name := e.Name()
			if strings.HasPrefix(name, ".") || name == CheckpointsName {
				continue
			}
			folder := e.IsDir()
			if e.Type()&fs.ModeSymlink != 0 {
				st, err := os.Stat(filepath.Join(dir, name))
				folder = err == nil && st.IsDir()
			}
			if folder {
				scan(filepath.Join(dir, name), path.Join(id, name), depth+1)
			}
		}
	}
	scan(root, ".", 0)
	return runs, full
}

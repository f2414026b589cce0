package data

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// FolderError is the error of a data folder that does not exist, or whose data set is in a subfolder.
type FolderError struct {
	Dir, Split string
	Below      string   // subfolder with the data set; "" if Dir does not exist
	Setting    string   // setting that names the folder; "" is data.dir
	Seen       []string // directories in which a relative Dir was looked for, the working directory first
}

// Error implements error.
func (e *FolderError) Error() string {
	setting := cmp.Or(e.Setting, "data.dir")
	if e.Below != "" {
		return fmt.Sprintf("%s has no splits, but its folder precomp has; name %s with %s", e.Dir, e.Below, setting)
	}
	where := ""
	if len(e.Seen) > 0 {
		where = " in " + e.Seen[0]
		started := slices.DeleteFunc(slices.Clone(e.Seen[1:]), func(d string) bool { return d == e.Seen[0] })
		if len(started) > 0 {
			where += ", nor in " + strings.Join(started, ", ") + ", where the run was started"
		}
	}
	or := ""
	if setting == "data.dir" {
		or = fmt.Sprintf(", or write a synthetic world with 'vsetrain data synth %s'", e.Dir)
	}
	return fmt.Sprintf("%s: no such folder%s; name the folder that holds %s_caps.txt with %s%s", e.Dir, where, e.Split,
		setting, or)
}

// Splits returns the names of the splits in dir, which have captions or features: train, dev, test and testall first.
func Splits(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		for _, end := range []string{"_caps.txt", "_ims.npy"} {
			name, ok := strings.CutSuffix(e.Name(), end)
			if ok && name != "" && !e.IsDir() && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	order := map[string]int{"train": 1, "dev": 2, "test": 3, "testall": 4}
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(cmp.Or(order[a], len(order)+1), cmp.Or(order[b], len(order)+1))
	})
	return names, nil
}

// MissingCaptions returns the error of a split without captions in a folder that setting names; flag is the flag that
// names splits.
func MissingCaptions(dir, split, setting, flag string) error {
	names, err := Splits(dir)
	if err != nil || len(names) == 0 {
		err = missingSplit(dir, split)
		if f, ok := err.(*FolderError); ok {
			f.Setting = setting
		}
		return err
	}
	return fmt.Errorf("%s has no captions of split %q (%s_caps.txt): found the splits %s; name those to take with %s",
		dir, split, split, strings.Join(names, ", "), flag)
}

// missingSplit explains why a split was not found.
func missingSplit(dir, split string) error {
	names, err := Splits(dir)
	switch {
	case missing(err):
		return &FolderError{Dir: dir, Split: split}
	case err != nil:
		return err
	case len(names) > 0:
		remedy := "name one of them with --split"
		if split == "train" || split == "dev" {
			remedy = fmt.Sprintf("a training reads train and dev: rename the files of such a split to %s_*", split)
		}
		return fmt.Errorf("%s has no split %q (%s_caps.txt, %s_ims.npy): found %s; %s", dir, split, split, split,
			strings.Join(names, ", "), remedy)
	}
	if _, err := os.Stat(filepath.Join(dir, "precomp", split+"_caps.txt")); err == nil {
		return &FolderError{Dir: dir, Split: split, Below: filepath.Join(dir, "precomp")}
	}
	var without []string
	for _, ending := range []string{"_caps.txt", "_ims.npy", "_ids.txt"} {
		if _, err := os.Stat(filepath.Join(dir, split+ending)); err != nil {
			without = append(without, split+ending)
		}
	}
	return fmt.Errorf("%s has no splits: expected %s_caps.txt, %s_ims.npy and %s_ids.txt; missing here: %s", dir, split,
		split, split, strings.Join(without, ", "))
}

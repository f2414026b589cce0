package data

import (
	"fmt"
	"slices"
	"strings"
)

// FolderError is a data folder that is not there, or that holds the data set in a folder below it.
type FolderError struct {
	Dir, Split string
	Below      string   // folder that holds the data set; "" where there is no folder Dir
	Setting    string   // how a person names another folder; "" is data.dir
	Seen       []string // directories that a relative Dir was looked for in, the working directory first
}

// Error implements error.
func (e *FolderError) Error() string {
	setting := e.Setting
	if setting == "" {
		setting = "data.dir"
	}
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

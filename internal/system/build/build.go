// Package build says from which sources the program was built.
package build

import (
	"runtime/debug"
	"strings"
	"sync"
)

// The build may set these with -ldflags "-X vsetrain/internal/system/build.version=1.2.3 -X
// vsetrain/internal/system/build.commit=0123456789ab+changes". The commit is also found where Go stamps it, which
// -buildvcs=false, often set in GOFLAGS, turns off.
var (
	version = "0.6.0-dev"
	commit  = ""
)

// Homepage is the address of the project, which its owner sets here: the help, man pages, wheels, recipes and the web
// site of docs/ show it. "" shows none.
var Homepage = ""

// changes ends the commit of a build whose sources were changed since.
const changes = "+changes"

// Info describes a build.
type Info struct {
	Version string // "0.1.0"
	Commit  string // of git, 12 digits; "" is unknown
	Dirty   bool   // the sources had changes beyond the commit
}

// Current is the build that runs.
var Current = sync.OnceValue(func() Info {
	var settings []debug.BuildSetting
	if b, ok := debug.ReadBuildInfo(); ok {
		settings = b.Settings
	}
	return describe(version, commit, settings)
})

func describe(version, commit string, stamped []debug.BuildSetting) Info {
	i := Info{Version: version}
	if i.Commit, i.Dirty = strings.CutSuffix(commit, changes); i.Commit != "" {
		return i
	}
	for _, s := range stamped {
		switch s.Key {
		case "vcs.revision":
			i.Commit = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			i.Dirty = s.Value == "true"
		}
	}
	return i
}

// String returns "0.1.0 (0123456789ab+changes)", without brackets where the commit is unknown.
func (i Info) String() string {
	if i.Commit == "" {
		return i.Version
	}
	s := i.Version + " (" + i.Commit
	if i.Dirty {
		s += changes
	}
	return s + ")"
}

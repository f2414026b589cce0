// Package build says from which sources the program was built.
package build

import (
	"runtime/debug"
	"strings"
	"sync"
)

// The build may set these with -ldflags "-X vsetrain/internal/system/build.version=1.2.3 -X
// vsetrain/internal/system/build.commit=0123456789ab+changes". Go also stamps the commit, unless -buildvcs=false is
// set, as it often is in GOFLAGS.
var (
	version = "0.6.0-dev"
	commit  = ""
)

// Homepage is the address of the project, "" for none. The help, man pages, wheels, recipes and the web site of docs/
// show it.
var Homepage = ""

// changes is the suffix of the commit if the sources had uncommitted changes.
const changes = "+changes"

// Info describes a build.
type Info struct {
	Version string // "0.1.0"
	Commit  string // of git, 12 digits; "" is unknown
	Dirty   bool   // the sources had changes beyond the commit
}

// Current describes this build.
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

// String returns "0.1.0 (0123456789ab+changes)", or only the version if the commit is unknown.
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

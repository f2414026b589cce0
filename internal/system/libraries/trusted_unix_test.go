//go:build unix

package libraries

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/internal/house/try"
)

// A library that others could replace is refused: by the mode of its file, of a folder above it, or of a folder above
// what it is a link to. The next file takes its place, and the message names what is wrong and what helps.
func TestFindRefusesWhatOthersCanWrite(t *testing.T) {
	for _, c := range []struct {
		open string      // what others may write
		mode fs.FileMode // with what mode
		want string      // the reason, "" for none
	}{
		{"opt", 0o755, ""},
		{"opt/x/libort.so.2", 0o666, "others may write /opt/x/libort.so.2 (mode 0666"},
		{"opt", 0o777, "others may write /opt (mode 0777"},
		{"opt", 0o777 | fs.ModeSticky, ""},
		{"real", 0o777, "others may write /real (mode 0777"},
	} {
		root := tree(t, "", "opt/x/other", "real/libort.so.1", "usr/lib/libort.so.1")
		try.Do(t, os.WriteFile(filepath.Join(root, "opt/x/libort.so.2"), nil, 0o644))
		if strings.HasPrefix(c.open, "real") {
			try.Do(t, os.Remove(filepath.Join(root, "opt/x/libort.so.2")))
			try.Do(t, os.Symlink("../../real/libort.so.1", filepath.Join(root, "opt/x/libort.so.2")))
		}
		try.Do(t, os.Chmod(filepath.Join(root, c.open), c.mode))
		env := func(name string) string { return map[string]string{"LD_LIBRARY_PATH": "/opt/x"}[name] }
		f := NewFolders(root, env)
		f.AddLoaderPath()
		w := Wanted{Name: "ORT", Setting: "ORT_FILE", Files: []string{"libort.so.2", "libort.so.1"}, Install: "pip"}
		lib := Find(root, env, w, f)
		if c.want == "" {
			if lib.Path != "/opt/x/libort.so.2" || len(lib.Refused) > 0 {
				t.Errorf("%s with mode %v: found %+v", c.open, c.mode, lib)
			}
			continue
		}
		if lib.Path != "/usr/lib/libort.so.1" || len(lib.Refused) != 1 {
			t.Fatalf("%s with mode %v: found %+v", c.open, c.mode, lib)
		}
		try.Do(t, os.Remove(filepath.Join(root, lib.Path)))
		missing := Find(root, env, w, f).Missing()
		for _, part := range []string{"ORT is not loaded: /opt/x/libort.so.2: ", c.want, "chmod go-w", "ORT_FILE"} {
			if !strings.Contains(missing, part) {
				t.Errorf("%s with mode %v: %q does not say %q", c.open, c.mode, missing, part)
			}
		}
	}
}

// The owner is root or the user, and a group that may write is root's or the user's own.
func TestTrustedEntry(t *testing.T) {
	for _, c := range []struct {
		mode               fs.FileMode
		owner, group, user uint32
		want               string
	}{
		{0o644, 0, 0, 1000, ""},
		{0o644, 1000, 50, 1000, ""},
		{0o644, 1001, 1001, 1000, "/x belongs to user 1001, expected root or yourself (user 1000)"},
		{0o644, 1001, 1001, 0, "/x belongs to user 1001"},
		{0o664, 1000, 1000, 1000, ""},
		{0o664, 0, 0, 1000, ""},
		{0o664, 1000, 100, 1000, "others may write /x (mode 0664, group 100)"},
		{0o602, 1000, 1000, 1000, "others may write /x (mode 0602"},
		{0o777 | fs.ModeSymlink, 1000, 1000, 1000, ""},
		{0o777 | fs.ModeSymlink, 1001, 1001, 1000, "/x belongs to user 1001"},
		{0o777 | fs.ModeDir | fs.ModeSticky, 0, 0, 1000, ""},
	} {
		got := ""
		if err := trustedEntry("/x", c.mode, c.owner, c.group, c.user); err != nil {
			got = err.Error()
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}

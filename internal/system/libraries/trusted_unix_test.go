//go:build unix

package libraries

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/lab/try"
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
		try.Fails(t, errors.New(Find(root, env, w, f).Missing()), "ORT is not loaded: /opt/x/libort.so.2: ", c.want,
			"chmod go-w", "ORT_FILE")
	}
}

// Files belong to root, to the user or to whoever owns the python3 that runs here; a group that may write is the group
// of one of them. In a container, folders of the system may be the machine's.
func TestOwners(t *testing.T) {
	const nobody = 65534
	for _, c := range []struct {
		mode         fs.FileMode
		owner, group uint32
		o            owners
		want         string
	}{
		{0o644, 0, 0, owners{user: 0, outside: -1}, ""},
		{0o644, 1000, 50, owners{user: 1000, outside: -1}, ""},
		{0o644, 1001, 1001, owners{user: 1000, outside: -1},
			"/x belongs to user 1001, expected root or yourself (user 1000)"},
		{0o644, 1001, 1001, owners{user: 0, outside: -1}, "/x belongs to user 1001"},
		{0o644, 1001, 1001, owners{user: 0, outside: -1, python: []uint32{1001}}, ""},
		{0o664, 1001, 1001, owners{user: 0, outside: -1, python: []uint32{1001}}, ""},
		{0o664, 1001, 1002, owners{user: 0, outside: -1, python: []uint32{1001}},
			"others may write /x (mode 0664, group 1002)"},
		{0o666, 1001, 1001, owners{user: 0, outside: -1, python: []uint32{1001}}, "others may write /x"},
		{0o644, 1002, 1001, owners{user: 0, outside: -1, python: []uint32{0, 1001}},
			"or the owner of your python3 (user 1001)"},
		{0o664, 1000, 1000, owners{user: 1000, outside: -1}, ""},
		{0o664, 0, 0, owners{user: 1000, outside: -1}, ""},
		{0o664, 1000, 100, owners{user: 1000, outside: -1}, "others may write /x (mode 0664, group 100)"},
		{0o602, 1000, 1000, owners{user: 1000, outside: -1}, "others may write /x (mode 0602"},
		{0o777 | fs.ModeSymlink, 1000, 1000, owners{user: 1000, outside: -1}, ""},
		{0o777 | fs.ModeSymlink, 1001, 1001, owners{user: 1000, outside: -1}, "/x belongs to user 1001"},
		{0o777 | fs.ModeDir | fs.ModeSticky, 0, 0, owners{user: 1000, outside: -1}, ""},
		{0o755, nobody, nobody, owners{user: 1000, outside: -1}, "/x belongs to user 65534"},
		{0o755, nobody, nobody, owners{user: 1000, outside: nobody}, ""},
		{0o775, nobody, nobody, owners{user: 1000, outside: nobody}, "others may write /x"},
		{0o777, nobody, nobody, owners{user: 0, outside: nobody}, "others may write /x"},
	} {
		got := ""
		if err := c.o.check("/x", c.mode, c.owner, c.group, func() bool { return false }); err != nil {
			got = err.Error()
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%+v: got %q", c, got)
		}
	}
	o := owners{user: 1000, outside: -1}
	try.Fails(t, o.check("/x", 0o664, 1000, 1000, func() bool { return true }), "setfacl -b /x")
	try.Do(t, o.check("/x", 0o644, 1000, 1000, func() bool { return true }))
}

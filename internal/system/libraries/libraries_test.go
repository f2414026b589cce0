package libraries

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"vsetrain/lab/try"
)

// tree makes a folder with empty files and one configuration of the loader in it.
func tree(t *testing.T, conf string, files ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range append(files, "etc/ld.so.conf") {
		path := filepath.Join(root, name)
		try.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		try.Do(t, os.WriteFile(path, []byte(conf), 0o644))
	}
	return root
}

// A configuration that includes itself ends.
func TestLoaderConfCycle(t *testing.T) {
	root := tree(t, "include ld.so.conf\n/opt/a\n")
	if got := loaderConf(root, "etc/ld.so.conf", 0); !slices.Contains(got, "/opt/a") {
		t.Errorf("got %q", got)
	}
}

// Of names that a pattern stands for the newest version comes first; a folder of that name is none.
func TestFindPattern(t *testing.T) {
	root := tree(t, "", "opt/x/libort.so.1.9.0", "opt/x/libort.so.1.32.0", "opt/x/libort.so/file", "opt/x/other.so.2")
	env := func(name string) string { return map[string]string{"LD_LIBRARY_PATH": "/opt/x"}[name] }
	f := NewFolders(root, env)
	f.AddLoaderPath()
	w := Wanted{Name: "ORT", Setting: "ORT", Files: []string{"libort.so*"}, Install: "pip"}
	want := []string{"/opt/x/libort.so.1.32.0", "/opt/x/libort.so.1.9.0"}
	if got := Find(root, env, w, f).Paths(); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if l := Find(t.TempDir(), env, w, f); l.Path != "" || l.Install != "pip" || len(l.Tried) < 5 {
		t.Errorf("found %+v in an empty folder", l)
	}
}

//go:build unix

package libraries

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"vsetrain/lab/try"
)

// findCUBLAS looks for a library among pip's packages.
func findCUBLAS(root string, env map[string]string) Library {
	getenv := func(name string) string { return env[name] }
	f := NewFolders(root, getenv)
	f.AddPip("nvidia/cublas/lib")
	return Find(root, getenv, Wanted{Name: "cuBLAS", Setting: "CUBLAS", Files: []string{"libcublas.so.12"}}, f)
}

const packages = "/lib/python3.12/site-packages"

// script writes a file that is run.
func script(t *testing.T, root, name, text string) {
	t.Helper()
	try.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
	try.Do(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o755))
}

// link makes a link and the folder that it is in.
func link(t *testing.T, root, to, name string) {
	t.Helper()
	try.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
	try.Do(t, os.Symlink(to, filepath.Join(root, name)))
}

// The packages of the python3 that PATH finds are found, whatever lies between the two: links, scripts and pyenv, in
// any order, an interpreter whose packages an environment shares, and files that name other folders of packages.
func TestPackagesOfPython(t *testing.T) {
	draw := rand.New(rand.NewPCG(51, 6))
	for n := range 80 {
		root := t.TempDir()
		place := func(i int) string {
			return fmt.Sprintf("/%s/env%d", []string{"opt/x", "home/u", "srv"}[draw.IntN(3)], i)
		}
		name := []string{"python3", "python3", "python"}[draw.IntN(3)]
		env := map[string]string{"PATH": "relative:/usr/local/bin:/usr/bin:/bin"}
		// From the end to what PATH finds.
		final := place(0)
		at := final + "/bin/" + name
		script(t, root, at, "\x7fELF")
		how := ""
		for i := range draw.IntN(4) {
			next := place(1+i) + "/bin/" + name
			switch draw.IntN(5) {
			case 0:
				how = "link, " + how
				link(t, root, at, next)
			case 1:
				how = "relative link, " + how
				link(t, root, try.Get(filepath.Rel(filepath.Dir(next), at))(t), next)
			case 2:
				how = "script, " + how
				script(t, root, next, "#!/bin/sh\n# another Python\nexec "+at+" \"$@\"\n")
			case 3:
				how = "quoted script, " + how
				script(t, root, next, "#!/usr/bin/env bash\nexport PATH=/bin\nexec '"+at+"' -I \"$@\"\n")
			case 4:
				how = "pyenv, " + how
				version := filepath.Dir(filepath.Dir(next)) + "/versions/3.12.1/bin/" + name
				link(t, root, at, version)
				script(t, root, next, "#!/usr/bin/env bash\nset -e\nprogram=\"${0##*/}\"\nexport PYENV_ROOT=\""+
					filepath.Dir(filepath.Dir(next))+"\"\nexec \"/p/libexec/pyenv\" exec \"$program\" \"$@\"\n")
				script(t, root, filepath.Dir(filepath.Dir(next))+"/version", "3.12.1\n")
			}
			at = next
		}
		site := final + packages
		switch draw.IntN(4) {
		case 0:
			how += "shared by an environment"
			base := place(9)
			script(t, root, final+"/pyvenv.cfg", "home = "+base+"/bin\nInclude-System-Site-Packages = true\n")
			site = base + packages
		case 1:
			how += "named by a .pth file"
			site = "/data/libs/of python"
			script(t, root, final+packages+"/torch.pth", "import nothing\n"+site+"\n")
		case 2:
			how += "in PYTHONPATH"
			site = "/data/path"
			env["PYTHONPATH"] = "relative:" + site
		}
		bin := []string{"/usr/local/bin", "/usr/bin", "/bin"}[draw.IntN(3)]
		link(t, root, at, filepath.Join(bin, name))
		want := site + "/nvidia/cublas/lib/libcublas.so.12"
		script(t, root, want, "")
		if got := findCUBLAS(root, env); got.Path != want {
			t.Errorf("tree %d, %s: found %q, expected %q", n, how, got.Path, want)
		}
	}
}

// What is not a Python of PATH, or not surely one, is not followed.
func TestPackagesOfOtherPythons(t *testing.T) {
	file := "/opt/x" + packages + "/nvidia/cublas/lib/libcublas.so.12"
	for what, make := range map[string]func(root string){
		"a script of two Pythons": func(root string) {
			script(t, root, "/usr/bin/python3", "#!/bin/sh\nexec /opt/x/bin/python3\nexec /opt/y/bin/python3\n")
		},
		"text that is no script":    func(root string) { script(t, root, "/usr/bin/python3", "/opt/x/bin/python3\n") },
		"an environment of its own": func(root string) { script(t, root, "/usr/pyvenv.cfg", "home = /opt/x/bin\n") },
		"a version of pyenv outside": func(root string) {
			script(t, root, "/usr/bin/python3", "#!/bin/sh\nexport PYENV_ROOT=\"/p\"\n")
			script(t, root, "/p/version", "../../opt/x\n")
		},
		"a link to itself": func(root string) {
			link(t, root, "python3", "/usr/bin/python3")
		},
		"another Python later in PATH": func(root string) {
			script(t, root, "/usr/bin/python3", "\x7fELF")
			script(t, root, "/bin/python3", "#!/bin/sh\nexec /nowhere/bin/python3\n")
			script(t, root, "/usr"+packages+"/a.pth", "relative/opt/x\n#/opt/x"+packages+"\n")
		},
	} {
		root := t.TempDir()
		script(t, root, file, "")
		make(root)
		if got := findCUBLAS(root, map[string]string{"PATH": "/usr/bin:/bin"}); got.Path != "" {
			t.Errorf("%s: found %q", what, got.Path)
		}
	}
}

// Root takes the packages of a Python that belongs to somebody else where that is the python3 which root runs, and no
// other files of theirs.
func TestPackagesOfAnotherOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files to others")
	}
	const owner, stranger = 1000, 1001
	file := packages + "/nvidia/cublas/lib/libcublas.so.12"
	for _, c := range []struct {
		name  string
		env   map[string]string
		files map[string]int // with whom they belong to; the folders above them too
		open  string         // what everybody may write
		mode  fs.FileMode
		want  string
	}{
		{"an environment in PATH", map[string]string{"PATH": "/venv/bin:/usr/bin"},
			map[string]int{"/venv/bin/python3": owner, "/venv" + file: owner}, "", 0, "/venv" + file},
		{"a link of root to it", map[string]string{"PATH": "/usr/bin"},
			map[string]int{"/usr/bin/x": 0, "/venv/bin/python3": owner, "/venv" + file: owner}, "", 0, "/venv" + file},
		{"files of somebody else in it", map[string]string{"PATH": "/venv/bin"},
			map[string]int{"/venv/bin/python3": owner, "/venv" + file: stranger}, "", 0, ""},
		{"a later Python of PATH", map[string]string{"PATH": "/usr/bin:/venv/bin"},
			map[string]int{"/usr/bin/python3": 0, "/venv/bin/python3": owner, "/venv" + file: owner}, "", 0, ""},
		{"an environment that a variable names", map[string]string{"PATH": "/usr/bin", "VIRTUAL_ENV": "/venv"},
			map[string]int{"/usr/bin/python3": 0, "/venv/bin/python3": owner, "/venv" + file: owner}, "", 0, ""},
		{"an environment where everybody may put a python3", map[string]string{"PATH": "/venv/bin"},
			map[string]int{"/venv/bin/python3": owner, "/venv" + file: owner}, "/venv/bin", 0o777 | fs.ModeSticky, ""},
		{"one that everybody may write", map[string]string{"PATH": "/venv/bin"},
			map[string]int{"/venv/bin/python3": owner, "/venv" + file: owner}, "/venv/lib", 0o777, ""},
		{"the home of root", map[string]string{"PATH": "/usr/bin", "HOME": "/root"},
			map[string]int{"/usr/bin/python3": 0, "/root/.local" + file: 0}, "", 0, "/root/.local" + file},
	} {
		root := t.TempDir()
		for _, name := range slices.Backward(slices.Sorted(maps.Keys(c.files))) {
			script(t, root, name, "")
			for at := name; at != "/" && at != "/usr"; at = filepath.Dir(at) {
				try.Do(t, os.Chown(filepath.Join(root, at), c.files[name], c.files[name]))
			}
		}
		if c.files["/usr/bin/x"] == 0 && c.name == "a link of root to it" {
			link(t, root, "/venv/bin/python3", "/usr/bin/python3")
		}
		if c.open != "" {
			try.Do(t, os.Chmod(filepath.Join(root, c.open), c.mode))
		}
		got := findCUBLAS(root, c.env)
		if got.Path != c.want || c.want == "" && len(got.Refused) != 1 {
			t.Errorf("%s: found %q, refused %q", c.name, got.Path, got.Refused)
		}
	}
}

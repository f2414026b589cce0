// Package libraries finds shared libraries where package managers of Linux, conda and pip put them, and refuses
// libraries that other users could have put there (docs/security.md). It looks only for files and loads nothing.
package libraries

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Unsupported says why a build that cannot load libraries loads none.
func Unsupported() string {
	if runtime.GOOS == "windows" {
		return "vsetrain loads no libraries on Windows (docs/install.md)"
	}
	return "this program loads no libraries (docs/faq.md)"
}

// Wanted describes a library to find.
type Wanted struct {
	Name, Setting string   // Setting is the environment variable that names the file
	Files         []string // file names or patterns of filepath.Glob, best first
	Install       string   // what to install if it is missing
}

// Library is a library and where it was found.
type Library struct {
	Name    string   `json:"name"`
	Path    string   `json:"path"`              // empty: not found
	From    string   `json:"from"`              // setting, loader path, driver folder, CUDA toolkit, conda, pip
	Others  []string `json:"others,omitempty"`  // files found after it, to try if it does not load
	Setting string   `json:"setting"`           // the environment variable that names the file
	Refused []string `json:"refused,omitempty"` // files that others can change, each with the remedy
	Tried   []string `json:"tried,omitempty"`   // if it is missing: the folders that were searched
	Install string   `json:"install,omitempty"` // if it is missing: what to install
}

// Missing says that a library was not found, and what to do.
func (l Library) Missing() string {
	if l.From == none {
		return fmt.Sprintf("%s is turned off by %s=none", l.Name, l.Setting)
	}
	if len(l.Refused) > 0 {
		return fmt.Sprintf("%s is not loaded: %s", l.Name, strings.Join(l.Refused, "; "))
	}
	return fmt.Sprintf("%s not found in %d folders; %s; or name the file in %s", l.Name, len(l.Tried), l.Install,
		l.Setting)
}

// Paths returns all files that were found, best first.
func (l Library) Paths() []string {
	if l.Path == "" {
		return nil
	}
	return append([]string{l.Path}, l.Others...)
}

// none as the value of a setting turns the library off.
const none = "none"

// Find looks for a library below root, "/" except in tests. It returns only the file that the setting names, or else
// the files in the folders, in their order, that nobody can change but the users whose code runs here anyway (owners).
// Of several files in one folder the newest comes first.
func Find(root string, getenv func(string) string, w Wanted, folders *Folders) Library {
	lib := Library{Name: w.Name, Setting: w.Setting}
	switch file := getenv(w.Setting); file {
	case "":
	case none:
		lib.From = none
		return lib
	default:
		lib.Path, lib.From = file, "setting"
		return lib
	}
	var refused [][2]string // files, and why
	for _, p := range folders.list {
		for _, file := range filesIn(root, p.dir, w.Files) {
			err := trusted(root, file, folders.owners(p))
			if i := slices.IndexFunc(refused, func(r [2]string) bool { return r[0] == file }); err == nil && i >= 0 {
				refused = slices.Delete(refused, i, i+1) // found again in a folder of the system
			} else if err != nil && i < 0 && !slices.Contains(lib.Paths(), file) {
				refused = append(refused, [2]string{file, err.Error()})
			}
			switch {
			case err != nil:
			case lib.Path == "":
				lib.Path, lib.From = file, p.from
			case file != lib.Path && !slices.Contains(lib.Others, file):
				lib.Others = append(lib.Others, file)
			}
		}
	}
	for _, r := range refused {
		lib.Refused = append(lib.Refused, fmt.Sprintf("%s: %s, or name the file in %s if you trust it", r[0], r[1],
			w.Setting))
	}
	if lib.Path == "" {
		lib.Install = w.Install
		for _, p := range folders.list {
			lib.Tried = append(lib.Tried, p.dir)
		}
	}
	return lib
}

// Trusted returns an error with the remedy if others can change a file, which is next to a library.
func Trusted(file string) error {
	f := NewFolders("/", os.Getenv)
	return trusted("/", file, f.owners(folder{}))
}

// Folders are the folders that may hold libraries, relative to the root; patterns of filepath.Glob.
type Folders struct {
	root   string
	getenv func(string) string
	python python
	list   []folder
}

// folder is a folder that the system or the environment (a variable or PATH) names.
type folder struct {
	from, dir string
	named     bool // by the environment
	packages  bool // of a Python
}

// NewFolders returns no folders yet.
func NewFolders(root string, getenv func(string) string) *Folders {
	return &Folders{root: root, getenv: getenv, python: findPython(root, getenv)}
}

// Arch returns the name of this processor in names of folders.
func Arch() string { return map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] }

// Add adds folders of a kind that the system names.
func (f *Folders) Add(from string, dirs ...string) { f.add(folder{from: from}, dirs...) }

func (f *Folders) add(as folder, dirs ...string) {
	for _, as.dir = range dirs {
		f.list = append(f.list, as)
	}
}

// AddEnv adds folders below the folders that an environment variable lists.
func (f *Folders) AddEnv(from, name string, below ...string) {
	for _, prefix := range filepath.SplitList(f.getenv(name)) {
		for _, b := range below {
			if filepath.IsAbs(prefix) {
				f.add(folder{from: from, named: true, packages: from == conda || from == pip}, filepath.Join(prefix, b))
			}
		}
	}
}

// AddLoaderPath adds the folders of the loader: LD_LIBRARY_PATH, ld.so.conf, and its own.
func (f *Folders) AddLoaderPath() {
	const from = "loader path"
	f.AddEnv(from, "LD_LIBRARY_PATH", "")
	f.Add(from, loaderConf(f.root, "etc/ld.so.conf", 0)...)
	f.Add(from, "/lib/"+Arch()+"-linux-gnu", "/usr/lib/"+Arch()+"-linux-gnu", "/lib64", "/usr/lib64", "/lib",
		"/usr/lib")
}

// Kinds of folders of a Python.
const conda, pip = "conda", "pip"

// AddConda adds folders of the active conda environment, and of the one in container images.
func (f *Folders) AddConda(inside ...string) {
	f.AddEnv(conda, "CONDA_PREFIX", inside...)
	for _, name := range inside {
		f.add(folder{from: conda, packages: true}, filepath.Join("/opt/conda", name))
	}
}

// AddPip adds folders of pip's packages, such as torch/lib, of these environments: the active one (VIRTUAL_ENV,
// CONDA_PREFIX), the user's, those that the python3 of PATH imports from, those of a bin in PATH, the system's. It does
// not add an environment because it is in the working folder: it may have come with a data set.
func (f *Folders) AddPip(inside ...string) {
	for _, site := range f.python.sites {
		for _, name := range inside {
			f.add(folder{pip, "", true, true}, filepath.Join(site, name))
		}
	}
	for _, packages := range []string{"site-packages", "dist-packages"} {
		for _, python := range []string{"lib/python3*", "lib64/python3*"} {
			for _, name := range inside {
				dir := filepath.Join(python, packages, name)
				for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "PYTHONUSERBASE"} {
					f.AddEnv(pip, name, dir)
				}
				f.AddEnv(pip, "HOME", filepath.Join(".local", dir))
				for _, prefix := range f.python.prefixes {
					f.add(folder{pip, "", true, true}, filepath.Join(prefix, dir))
				}
				f.add(folder{from: pip, packages: true}, "/usr/local/"+dir, "/usr/"+dir, "/opt/conda/"+dir,
					"/opt/venv/"+dir)
			}
		}
	}
}

// loaderConf returns the folders in the configuration of the loader and in the files that it includes.
func loaderConf(root, name string, depth int) []string {
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil || depth > 4 {
		return nil
	}
	var dirs []string
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		pattern, include := strings.CutPrefix(line, "include ")
		if !include {
			if filepath.IsAbs(line) {
				dirs = append(dirs, line)
			}
			continue
		}
		pattern = strings.TrimSpace(pattern)
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(name), pattern)
		}
		for _, file := range glob(root, pattern) {
			dirs = append(dirs, loaderConf(root, file, depth+1)...)
		}
	}
	return dirs
}

// filesIn returns the files in the folders that match the pattern, the best name first, then the newest folder.
func filesIn(root, pattern string, files []string) (found []string) {
	dirs := glob(root, pattern)
	slices.SortStableFunc(dirs, func(a, b string) int { return compareNumbers(b, a) }) // cuda-12.10 before cuda-12.9
	for _, f := range files {
		for _, d := range dirs {
			names := []string{filepath.Join(d, f)}
			if strings.Contains(f, "*") {
				names = glob(root, names[0])
				slices.SortStableFunc(names, func(a, b string) int { return compareNumbers(b, a) })
			}
			for _, name := range names {
				if info, err := os.Stat(filepath.Join(root, name)); err == nil && info.Mode()&fs.ModeType == 0 {
					found = append(found, name)
				}
			}
		}
	}
	return found
}

// compareNumbers compares text, with runs of digits as numbers.
func compareNumbers(a, b string) int {
	digits := func(s string) int {
		n := 0
		for n < len(s) && '0' <= s[n] && s[n] <= '9' {
			n++
		}
		return n
	}
	for a != "" && b != "" {
		if i, j := digits(a), digits(b); i > 0 && j > 0 {
			x, y := strings.TrimLeft(a[:i], "0"), strings.TrimLeft(b[:j], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[i:], b[j:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// glob returns the paths below root that match, relative to it, with a leading slash.
func glob(root, pattern string) []string {
	names, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		return nil // a folder whose name is a bad pattern holds no library
	}
	for i, n := range names {
		names[i] = "/" + strings.TrimPrefix(strings.TrimPrefix(n, filepath.Clean(root)), "/")
	}
	return names
}

package libraries

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// python is the first python3 in PATH, and where it imports from.
type python struct {
	prefixes []string // folders with a bin, in the order of PATH: of this python3, then of all others
	sites    []string // folders of packages outside the prefixes
	owners   []uint32 // who can replace it, except root and the user
}

// findPython follows the first python3 of PATH, or else python, to the interpreter that it starts: through links,
// scripts that start another Python, pyenv, and the interpreter that a virtual environment was made with.
func findPython(root string, getenv func(string) string) (p python) {
	bins := slices.DeleteFunc(filepath.SplitList(getenv("PATH")), func(b string) bool { return !filepath.IsAbs(b) })
	own := ""
	for _, name := range []string{"python3", "python"} {
		for _, bin := range bins {
			file := filepath.Join(bin, name)
			if _, err := os.Lstat(filepath.Join(root, file)); err == nil && own == "" {
				own = file
				p.owners = ownersOf(root, bin)
			}
		}
	}
	for _, entry := range filepath.SplitList(getenv("PYTHONPATH")) {
		if filepath.IsAbs(entry) {
			p.sites = append(p.sites, filepath.Clean(entry))
		}
	}
	p.follow(root, getenv, own, own != "")
	for _, prefix := range p.prefixes {
		p.sites = append(p.sites, pathFiles(root, prefix)...)
	}
	for _, bin := range bins {
		p.add(bin)
		for _, name := range []string{"python3", "python"} {
			p.follow(root, getenv, filepath.Join(bin, name), false)
		}
	}
	return p
}

func (p *python) add(bin string) {
	prefix := filepath.Dir(filepath.Clean(bin))
	if filepath.Base(bin) == "bin" && !slices.Contains(p.prefixes, prefix) {
		p.prefixes = append(p.prefixes, prefix)
	}
}

// follow adds the prefixes on the way from a file to the interpreter that it starts, and with own also the owners of
// the files on the way: whoever runs this Python runs their files.
func (p *python) follow(root string, getenv func(string) string, file string, own bool) {
	for range 8 {
		info, err := os.Lstat(filepath.Join(root, file))
		if err != nil {
			return
		}
		p.add(filepath.Dir(file))
		if owner, known := ownerOf(info); known && own && p.owners != nil && !slices.Contains(p.owners, owner) {
			p.owners = append(p.owners, owner)
		}
		home, packages := environment(root, filepath.Dir(filepath.Dir(file)))
		if packages {
			p.add(home)
		}
		next, err := os.Readlink(filepath.Join(root, file))
		if err != nil {
			if next = started(root, getenv, file); next == "" {
				return
			}
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(filepath.Dir(file), next)
		}
		file = next
	}
}

// environment returns the bin that a virtual environment was made from, and whether the environment uses its packages.
func environment(root, prefix string) (home string, packages bool) {
	for line := range linesOf(root, filepath.Join(prefix, "pyvenv.cfg")) { // key = value
		key, value, _ := strings.Cut(line, "=")
		switch value = strings.TrimSpace(value); strings.ToLower(strings.TrimSpace(key)) {
		case "home":
			home = value
		case "include-system-site-packages":
			packages = value == "true"
		}
	}
	return home, packages && filepath.IsAbs(home)
}

// pathFiles returns the folders that the .pth files of a prefix add to the import path of its Python.
func pathFiles(root, prefix string) (sites []string) {
	for _, file := range glob(root, filepath.Join(prefix, "lib", "python3*", "*-packages", "*.pth")) {
		for line := range linesOf(root, file) {
			if filepath.IsAbs(line) {
				sites = append(sites, filepath.Clean(line))
			}
		}
	}
	return sites
}

var interpreter = regexp.MustCompile(`/[^\s"'=:;]*/bin/python[0-9.]*`)

// started returns the Python that a script starts: the only one that it names, or the one that pyenv takes; "" if file
// is no such script.
func started(root string, getenv func(string) string, file string) (next string) {
	script := false
	for line := range linesOf(root, file) {
		if script = script || strings.HasPrefix(line, "#!"); !script {
			return ""
		}
		for _, name := range interpreter.FindAllString(line, -1) {
			if next != "" && next != name {
				return ""
			}
			next = name
		}
		if place, ok := strings.CutPrefix(line, "export PYENV_ROOT="); ok {
			return pyenv(root, getenv, strings.Trim(place, `"'`), filepath.Base(file))
		}
	}
	return next
}

// pyenv returns the Python that pyenv takes: of PYENV_VERSION, or of the file version for all folders.
func pyenv(root string, getenv func(string) string, place, name string) string {
	version, _, _ := strings.Cut(getenv("PYENV_VERSION"), ":")
	for line := range linesOf(root, filepath.Join(place, "version")) {
		if version == "" {
			version = line
		}
	}
	if version == "" || version != filepath.Base(version) {
		return ""
	}
	return filepath.Join(place, "versions", version, "bin", name)
}

// linesOf iterates over the trimmed lines of a small text file, none if it does not exist.
func linesOf(root, file string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		info, err := os.Stat(filepath.Join(root, file))
		if err != nil || !info.Mode().IsRegular() {
			return
		}
		f, err := os.Open(filepath.Join(root, file))
		if err != nil {
			return
		}
		defer f.Close()
		for in := bufio.NewScanner(io.LimitReader(f, 64<<10)); in.Scan(); {
			if line := strings.TrimSpace(in.Text()); line != "" && !yield(line) {
				return
			}
		}
	}
}

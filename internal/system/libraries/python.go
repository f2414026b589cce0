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

// python is the python3 that PATH finds first, and what it imports from.
type python struct {
	prefixes []string // folders with a bin, in the order of PATH: of this one, then of all others
	sites    []string // folders of packages that are in no prefix
	owners   []uint32 // who can put another one in its place, beside root and the user
}

// findPython follows the python3 of PATH, or without one its python, to what is started in the end: through links, a
// script that starts another Python, pyenv, and the interpreter that an environment was made with.
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

// follow adds the prefixes on the way from a file to the interpreter that it starts, and with own the owners of what is
// on the way, too: whoever runs this Python runs what they put there.
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

// environment is the bin that a virtual environment was made from, and whether it has the packages there too.
func environment(root, prefix string) (home string, packages bool) {
	for key, value := range keysOf(root, filepath.Join(prefix, "pyvenv.cfg")) {
		switch key {
		case "home":
			home = value
		case "include-system-site-packages":
			packages = value == "true"
		}
	}
	return home, packages && filepath.IsAbs(home)
}

// pathFiles are the folders that the .pth files of a prefix add to what its Python imports from.
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

// started is the Python that a script starts, where it names one and no other, or pyenv does; empty for what is none.
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

// pyenv is the Python that pyenv takes: from PYENV_VERSION, or of all folders.
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

// keysOf are the lines "key = value" of a file.
func keysOf(root, file string) map[string]string {
	all := map[string]string{}
	for line := range linesOf(root, file) {
		if key, value, ok := strings.Cut(line, "="); ok {
			all[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
		}
	}
	return all
}

// linesOf are the lines of a small file of text, without blanks around them; none of one that is not there.
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

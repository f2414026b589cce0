package main

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"vsetrain/internal/files/atomicfile"
)

func main() {
	var o options
	flag.StringVar(&o.Go, "go", "go", "the go command")
	flag.StringVar(&o.LDFlags, "ldflags", "", "flags of the linker, which hold version and commit")
	flag.StringVar(&o.Out, "out", "bin/release", "folder to write to")
	flag.Int64Var(&o.Epoch, "epoch", 0, "time of all files in seconds since 1970: that of the commit")
	flag.StringVar(&o.Commit, "commit", "", "the commit, all of its digits")
	flag.StringVar(&o.Key, "key", "", "SSH key that signs the checksums; empty signs nothing")
	flag.StringVar(&o.URL, "url", "", "address of the folder where archives will lie; empty writes no recipes")
	flag.Parse()
	o.Targets = flag.Args()
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

type options struct {
	Go, LDFlags, Out string
	Commit, Key, URL string
	Epoch            int64
	Targets          []string // linux/amd64, linux/amd64/static
}

// target is a system that a release has a program for.
type target struct {
	OS, Arch string
	Static   bool // built without shared libraries, for Linux without glibc
}

// parseTarget reads linux/amd64 or linux/amd64/static.
func parseTarget(text string) (target, error) {
	parts := strings.Split(text, "/")
	static := len(parts) == 3 && parts[0] == "linux" && parts[2] == "static"
	if len(parts) != 2 && !static {
		return target{}, fmt.Errorf("target %q, expected OS/ARCH such as linux/amd64, or linux/ARCH/static", text)
	}
	return target{parts[0], parts[1], static}, nil
}

// String returns what names of files say: linux-amd64, linux-amd64-static.
func (t target) String() string {
	if t.Static {
		return t.OS + "-" + t.Arch + "-static"
	}
	return t.OS + "-" + t.Arch
}

// built is what archives and wheels are made of.
type built struct {
	Version  string
	Epoch    time.Time
	Program  entry   // for one system
	Shared   []entry // for all: LICENSE, NOTICE, README.md, docs, man pages, completions
	Licences []entry
	SBOM     entry
}

// entry is a file of an archive.
type entry struct {
	Name string // with slashes
	Exec bool
	Data []byte
}

func (o *options) run() error {
	if o.Epoch <= 0 || len(o.Targets) == 0 {
		return fmt.Errorf("expected -epoch and targets such as linux/amd64")
	}
	host, err := o.build(target{OS: runtime.GOOS, Arch: runtime.GOARCH})
	if err != nil {
		return err
	}
	b := built{Epoch: time.Unix(o.Epoch, 0).UTC()}
	if b.Version, err = version(host); err != nil {
		return err
	}
	if b.Shared, err = o.shared(host); err != nil {
		return err
	}
	python, err := files("python/vsetrain", "vsetrain", ".py", ".typed")
	if err != nil {
		return err
	}
	sums := map[string][]byte{}
	for _, text := range o.Targets {
		t, err := parseTarget(text)
		if err != nil {
			return err
		}
		made, err := o.pack(&b, python, t)
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		for name, data := range made {
			sum := sha256.Sum256(data)
			sums[name] = sum[:]
			if err := atomicfile.WriteFile(filepath.Join(o.Out, name), atomicfile.Bytes(data)); err != nil {
				return err
			}
			fmt.Printf("%s %.1f MB\n", filepath.Join(o.Out, name), float64(len(data))/1e6)
		}
	}
	if o.URL != "" {
		if err := writeRecipes(o.Out, recipe{b.Version, strings.TrimSuffix(o.URL, "/"), sums}); err != nil {
			return err
		}
	}
	statement, err := o.statement(b.Version, sums)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("vsetrain-%s.intoto.json", b.Version)
	if err := atomicfile.WriteFile(filepath.Join(o.Out, name), atomicfile.Bytes(statement)); err != nil {
		return err
	}
	sum := sha256.Sum256(statement)
	sums[name] = sum[:]
	list := filepath.Join(o.Out, "SHA256SUMS")
	if err := atomicfile.WriteFile(list, atomicfile.Bytes(checksums(sums))); err != nil || o.Key == "" {
		return err
	}
	return sign(o.Key, list)
}

// pack makes the files of one system, by their names.
func (o *options) pack(b *built, python []entry, t target) (map[string][]byte, error) {
	program, err := o.build(t)
	if err != nil {
		return nil, err
	}
	if b.Program.Data, err = os.ReadFile(program); err != nil {
		return nil, err
	}
	b.Program.Name, b.Program.Exec = "vsetrain", true
	if t.OS == "windows" {
		b.Program.Name += ".exe"
	}
	modules, err := modulesOf(program, o.Go)
	if err != nil {
		return nil, err
	}
	if b.Licences, err = licences(modules); err != nil {
		return nil, err
	}
	sbom, err := bill(b, modules, t)
	if err != nil {
		return nil, err
	}
	b.SBOM = entry{Name: "vsetrain.cdx.json", Data: sbom}
	name := fmt.Sprintf("vsetrain-%s-%s", b.Version, t)
	made := map[string][]byte{name + ".cdx.json": sbom}
	packed, data, err := archive(name, b, t)
	if err != nil {
		return nil, err
	}
	made[packed] = data
	packed, data, err = wheel(b, python, t)
	if err != nil {
		return nil, err
	}
	made[packed] = data
	return made, nil
}

// build compiles the program for a system and returns its path.
func (o *options) build(t target) (string, error) {
	out := filepath.Join(o.Out, "build", t.String(), "vsetrain")
	tags := ""
	if t.Static {
		tags = "nodl"
	}
	c := exec.Command(o.Go, "build", "-trimpath", "-buildvcs=false", "-tags", tags, "-ldflags", o.LDFlags, "-o", out,
		"./cmd/vsetrain")
	c.Env = append(os.Environ(), "GOOS="+t.OS, "GOARCH="+t.Arch, "CGO_ENABLED=0")
	if text, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build for %s: %w\n%s", t, err, text)
	}
	return out, nil
}

// version asks the program for its version.
func version(program string) (string, error) {
	out, err := exec.Command(program, "version", "--json").Output()
	if err != nil {
		return "", fmt.Errorf("%s version: %w", program, err)
	}
	var v struct{ Version string }
	if err := json.Unmarshal(out, &v); err != nil || v.Version == "" {
		return "", fmt.Errorf("%s version --json prints %q", program, out)
	}
	return v.Version, nil
}

// shared makes what is the same for all systems.
func (o *options) shared(program string) (all []entry, err error) {
	for _, name := range []string{"LICENSE", "NOTICE", "README.md", "CHANGELOG.md", "CITATION.cff"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, entry{Name: name, Data: data})
	}
	named, err := texts()
	if err != nil {
		return nil, err
	}
	all = append(all, named...)
	man := filepath.Join(o.Out, "build", "man")
	if err := os.RemoveAll(man); err != nil {
		return nil, err
	}
	c := exec.Command(program, "man", "--dir", man)
	c.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", o.Epoch))
	if text, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("man pages: %w\n%s", err, text)
	}
	pages, err := files(man, "man/man1", ".1")
	if err != nil {
		return nil, err
	}
	all = append(all, pages...)
	for shell, name := range map[string]string{"bash": "vsetrain", "zsh": "_vsetrain", "fish": "vsetrain.fish"} {
		text, err := exec.Command(program, "completion", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("completion for %s: %w", shell, err)
		}
		all = append(all, entry{Name: path.Join("completions", shell, name), Data: text})
	}
	return all, nil
}

// texts are the pages, with their figures, and the script that help texts and messages name.
func texts() ([]entry, error) {
	all, err := files("docs", "docs", ".md", ".svg", ".png", ".json", ".ipynb")
	if err != nil {
		return nil, err
	}
	const backbone = "scripts/torch_backbone_to_onnx.py"
	script, err := os.ReadFile(backbone)
	return append(all, entry{Name: backbone, Data: script}), err
}

// files reads the files below dir with one of the endings; to is what dir is called in the archive.
func files(dir, to string, endings ...string) (all []entry, err error) {
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !slices.Contains(endings, filepath.Ext(name)) {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		all = append(all, entry{Name: path.Join(to, filepath.ToSlash(rel)), Data: data})
		return err
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s: no files that end in %s", dir, strings.Join(endings, " or "))
	}
	return all, err
}

// checksums is the file that sha256sum --check reads.
func checksums(sums map[string][]byte) []byte {
	var lines []string
	for name, sum := range sums {
		lines = append(lines, fmt.Sprintf("%x  %s\n", sum, name))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return []byte(strings.Join(lines, ""))
}

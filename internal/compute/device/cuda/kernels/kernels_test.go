package kernels

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// The committed PTX is what the sources give. Other versions of clang write other PTX, so the version is part of the
// rule.
func TestPTXIsOfTheSources(t *testing.T) {
	const clang = "clang-19"
	if _, err := exec.LookPath(clang); err != nil {
		t.Skipf("the PTX is not compared: %v", err)
	}
	dir := t.TempDir()
	cmd := exec.Command("bash", "build.sh", dir)
	cmd.Env = append(os.Environ(), "CLANG="+clang)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, out)
	}
	modules := try.Get(Modules())(t)
	for _, m := range modules {
		fresh, err := os.ReadFile(filepath.Join(dir, m.Name+".ptx"))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(fresh, m.PTX) {
			t.Errorf("%s.ptx is not what %s makes of %[1]s.cu: run make kernels", m.Name, clang)
		}
	}
}

// Every source has its PTX, every kernel of a source its entry, and nothing in the PTX needs what a GPU or an older
// driver may lack.
func TestModules(t *testing.T) {
	sources := try.Get(filepath.Glob("*.cu"))(t)
	modules := try.Get(Modules())(t)
	if len(modules) != len(sources) {
		t.Errorf("%d PTX files, %d sources", len(modules), len(sources))
	}
	declared := regexp.MustCompile(`(?m)^KERNEL (\w+)\(([^)]*)\)`)
	for _, m := range modules {
		text := try.Get(os.ReadFile(m.Name + ".cu"))(t)
		var want []Entry
		for _, d := range declared.FindAllStringSubmatch(string(text), -1) {
			e := Entry{Name: d[1]}
			for _, p := range strings.Split(d[2], ",") {
				switch {
				case strings.Contains(p, "*") || strings.Contains(p, "i64 "):
					e.Parameters += "p"
				case strings.Contains(p, "float "):
					e.Parameters += "f"
				default:
					e.Parameters += "i"
				}
			}
			want = append(want, e)
		}
		for i := range max(len(want), len(m.Entries)) {
			if i >= len(want) || i >= len(m.Entries) || want[i] != m.Entries[i] {
				t.Errorf("%s: entries %v, declared %v", m.Name, m.Entries, want)
				break
			}
		}
		target := ".target sm_75"
		if strings.HasSuffix(m.Name, "_sm80") {
			target = ".target sm_80"
		}
		for _, line := range []string{".version 7.0", target, ".address_size 64"} {
			if !bytes.Contains(m.PTX, []byte("\n"+line+"\n")) {
				t.Errorf("%s.ptx has no line %q", m.Name, line)
			}
		}
		if loose := unrounded.Find(m.PTX); loose != nil {
			t.Errorf("%s.ptx holds %s without .rn, which a compiler may fuse with another", m.Name, loose)
		}
		own := bytes.ReplaceAll(m.PTX, []byte(".extern .shared"), nil)      // what a launch gives of shared memory
		for _, foreign := range []string{".extern", "call.uni", ".local"} { // library functions, printf, spilled arrays
			if bytes.Contains(own, []byte(foreign)) {
				t.Errorf("%s.ptx holds %s", m.Name, foreign)
			}
		}
	}
}

var unrounded = regexp.MustCompile(`\b(add|sub|mul)\.f(32|64)\b`)

func TestEntriesErrors(t *testing.T) {
	for _, ptx := range []string{".visible .entry a(", ".visible .entry a(\n.param .u8 x\n)",
		".visible .entry a(\n.param .align 8 .b8 x[24]\n)"} {
		if e, err := entries(ptx); err == nil {
			t.Errorf("%q: %v, no error", ptx, e)
		}
	}
}

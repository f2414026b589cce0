package kernels

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"vsetrain/lab/try"
)

var update = flag.Bool("update", false, "write registers.tsv anew")

// registersFile has the registers of a thread of every kernel according to NVIDIA's assembler, by compute capability.
const registersFile = "registers.tsv"

// architectures are Turing, Ampere, Hopper and Blackwell, the last one for Blackwell cards for desktops.
var architectures = []int{75, 80, 90, 100, 120}

// spilled are the bytes that a thread stores into memory for want of registers, by kernel and architecture.
var spilled = map[string]string{
	"decoder_sums sm_120": "24", "product_adam sm_120": "20",
	"self_attention_rows sm_120": "32", "self_attention_heads_grad sm_80": "16",
	"self_attention_heads_grad sm_120": "8", "gru_tensor_grad sm_120": "12", "gru_tensor_steps sm_80": "4",
	"gru_tensor_steps_tf32 sm_80": "4", "reason_graphs_grad sm_80": "4", "reason_graphs_grad sm_90": "8",
	"reason_graphs_grad sm_100": "8",
	"reason_attend sm_80":       "24", "reason_attend_grad sm_75": "116", "reason_attend_grad sm_80": "116",
	"reason_attend_grad sm_90": "124", "reason_attend_grad sm_100": "124", "reason_attend_grad sm_120": "220",
}

// The assembler that a driver holds too accepts every kernel for every architecture it is made for. No kernel spills
// registers into memory but the ones in spilled, and the registers of each are listed in registers.tsv.
func TestAssembler(t *testing.T) {
	ptxas := findAssembler(t)
	out := try.Get(exec.Command(ptxas, "--version").Output())(t)
	version := regexp.MustCompile(`V[\d.]+`).Find(out)
	modules := try.Get(Modules())(t)
	registers := make([][]map[string]int, len(modules)) // by module and architecture
	var wait sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, m := range modules {
		registers[i] = make([]map[string]int, len(architectures))
		for j, arch := range architectures {
			if arch < target(m.PTX) {
				continue
			}
			wait.Go(func() {
				free <- struct{}{}
				defer func() { <-free }()
				registers[i][j] = assemble(t, ptxas, m, arch)
			})
		}
	}
	wait.Wait()
	if t.Failed() {
		return
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Registers of a thread, by ptxas %s. make registers writes this file%s.\n", version, ofPTX())
	b.WriteString("file\tkernel")
	for _, arch := range architectures {
		fmt.Fprintf(&b, "\tsm_%d", arch)
	}
	for i, m := range modules {
		for _, e := range m.Entries {
			fmt.Fprintf(&b, "\n%s\t%s", m.Name, e.Name)
			for j := range architectures {
				b.WriteByte('\t')
				if registers[i][j] != nil {
					b.WriteString(strconv.Itoa(registers[i][j][e.Name]))
				}
			}
		}
	}
	b.WriteByte('\n')
	if *update {
		try.Do(t, os.WriteFile(registersFile, b.Bytes(), 0o666))
	}
	want := try.Get(os.ReadFile(registersFile))(t)
	if line, _, _ := bytes.Cut(want, []byte("\n")); !bytes.Contains(line, append(version, '.', ' ')) {
		t.Skipf("%s was written with another version than %s: registers are not compared", registersFile, version)
	}
	got := strings.Split(b.String(), "\n")
	had := strings.Split(string(want), "\n")
	for _, line := range got {
		if !slices.Contains(had, line) {
			t.Errorf("%s lacks %q", registersFile, line)
		}
	}
	for _, line := range had {
		if !slices.Contains(got, line) {
			t.Errorf("%s has %q, which is not so now", registersFile, line)
		}
	}
	if t.Failed() {
		t.Log("make registers writes it anew")
	}
}

// ofPTX names the PTX of the registers.
func ofPTX() string { return fmt.Sprintf(", of PTX with the SHA-256 %x", sha256.Sum256(archive)) }

// The registers belong to the committed PTX: TestAssembler, which takes long, counted them.
func TestRegistersAreOfThePTX(t *testing.T) {
	b := try.Get(os.ReadFile(registersFile))(t)
	if line, _, _ := strings.Cut(string(b), "\n"); !strings.Contains(line, ofPTX()) {
		t.Errorf("%s begins %q, expected it%s: run make registers", registersFile, line, ofPTX())
	}
}

// findAssembler returns ptxas: the one that VSETRAIN_PTXAS names, of the PATH, or of scripts/install-test-tools.sh.
func findAssembler(t *testing.T) string {
	if name := os.Getenv("VSETRAIN_PTXAS"); name != "" {
		return name
	}
	if name, err := exec.LookPath("ptxas"); err == nil {
		return name
	}
	name := try.Get(filepath.Abs("../../../../../bin/ptxas"))(t)
	if _, err := os.Stat(name); err != nil {
		t.Skip("no ptxas here; scripts/install-test-tools.sh installs it, VSETRAIN_PTXAS names another")
	}
	return name
}

// target returns the compute capability that PTX is written for, 75 for sm_75.
func target(ptx []byte) int {
	n, _ := strconv.Atoi(string(regexp.MustCompile(`(?m)^\.target sm_(\d+)`).FindSubmatch(ptx)[1]))
	return n
}

var properties = regexp.MustCompile(`Function properties for (\w+)\n\s+(\d+) bytes stack frame, ` +
	`(\d+) bytes spill stores, (\d+) bytes spill loads\nptxas info\s+: Used (\d+) registers`)

// assemble returns the registers of each kernel of a module.
func assemble(t *testing.T, ptxas string, m Module, arch int) map[string]int {
	name := filepath.Join(t.TempDir(), m.Name+".ptx")
	if err := os.WriteFile(name, m.PTX, 0o666); err != nil {
		t.Error(err)
		return nil
	}
	cmd := exec.Command(ptxas, "-v", fmt.Sprintf("-arch=sm_%d", arch), "-o", os.DevNull, name)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s for sm_%d: %v\n%s", m.Name, arch, err, out)
		return nil
	}
	registers := map[string]int{}
	for _, f := range properties.FindAllSubmatch(out, -1) {
		name := string(f[1])
		if is, want := string(f[3]), cmp.Or(spilled[fmt.Sprintf("%s sm_%d", name, arch)], "0"); is != want {
			t.Errorf("%s for sm_%d: %s spills %s bytes, expected %s", m.Name, arch, name, is, want)
		}
		registers[name], _ = strconv.Atoi(string(f[5]))
	}
	for _, e := range m.Entries {
		if registers[e.Name] == 0 {
			t.Errorf("%s for sm_%d: ptxas does not tell the registers of %s", m.Name, arch, e.Name)
		}
	}
	return registers
}

package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// The machine code of arm64 in every file of assembly is what clang makes of the mnemonic after it.
func TestWordsAreTheirMnemonics(t *testing.T) {
	clang, err := exec.LookPath("clang-19")
	if err != nil {
		if clang, err = exec.LookPath("clang"); err != nil {
			t.Skip("no clang-19 and no clang here")
		}
	}
	files, err := filepath.Glob("../../internal/*/*/*_arm64.s")
	if err != nil || len(files) < 5 {
		t.Fatalf("files of assembly: %v, %v", files, err)
	}
	word := regexp.MustCompile(`(?m)WORD \$(0x[0-9a-f]{8}) // (.+)$`)
	codes := map[string]uint32{} // by mnemonic
	for _, name := range files {
		text := try.Get(os.ReadFile(name))(t)
		found := word.FindAllSubmatch(text, -1)
		if len(found) != bytes.Count(text, []byte("WORD ")) {
			t.Errorf("%s: a WORD has no mnemonic behind it", name)
		}
		for _, m := range found {
			code := try.Get(strconv.ParseUint(string(m[1]), 0, 32))(t)
			if old, ok := codes[string(m[2])]; ok && old != uint32(code) {
				t.Errorf("%s: %s is %#08x here and %#08x elsewhere", name, m[2], code, old)
			}
			codes[string(m[2])] = uint32(code)
		}
	}
	var mnemonics []string
	for m := range codes {
		mnemonics = append(mnemonics, m)
	}
	slices.Sort(mnemonics)
	for i, got := range assembled(t, clang, mnemonics) {
		if want := codes[mnemonics[i]]; got != want {
			t.Errorf("%s: clang writes %#08x, the files hold %#08x", mnemonics[i], got, want)
		}
	}
}

// assembled returns the machine code of instructions. It skips where clang does not know arm64.
func assembled(t *testing.T, clang string, mnemonics []string) []uint32 {
	t.Helper()
	from, to := filepath.Join(t.TempDir(), "words.s"), filepath.Join(t.TempDir(), "words.o")
	try.Do(t, os.WriteFile(from, []byte(strings.Join(mnemonics, "\n")+"\n"), 0o600))
	out, err := exec.Command(clang, "--target=aarch64-linux-gnu", "-march=armv8.2-a+bf16", "-c", from, "-o", to).
		CombinedOutput()
	if bytes.Contains(out, []byte("unable to create target")) {
		t.Skipf("%s knows no arm64", clang)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f := try.Get(elf.Open(to))(t)
	defer f.Close()
	b, err := f.Section(".text").Data()
	if err != nil || len(b) != 4*len(mnemonics) {
		t.Fatalf("%d bytes of code for %d instructions, %v", len(b), len(mnemonics), err)
	}
	codes := make([]uint32, len(mnemonics))
	for i := range codes {
		codes[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return codes
}

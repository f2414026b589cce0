package integrity

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/lab/try"
)

// content is a file of two blocks and a half.
func content() []byte {
	b := make([]byte, 5*BlockSize/2)
	for i := range b {
		b[i] = byte(i * i >> 7)
	}
	return b
}

// The sum of a file is the same as from the standard library, in whatever pieces it is written.
func TestSum(t *testing.T) {
	b := content()
	for _, piece := range []int{1 << 10, BlockSize - 1, BlockSize, 3 * BlockSize} {
		s := NewSummer()
		for part := range slices.Chunk(b, piece) {
			s.Write(part)
		}
		got := s.Sum(time.Time{})
		blocks := ""
		for part := range slices.Chunk(b, BlockSize) {
			blocks += fmt.Sprintf("%08x", crc32.ChecksumIEEE(part))
		}
		if got.Size != int64(len(b)) || got.Blocks != blocks || got.SHA256 != fmt.Sprintf("%x", sha256.Sum256(b)) {
			t.Errorf("pieces of %d: %+v", piece, got)
		}
	}
	if s := NewSummer().Sum(time.Time{}); s.Size != 0 || s.Blocks != "" {
		t.Errorf("nothing: %+v", s)
	}
}

func sumOf(b []byte) Sum {
	s := NewSummer()
	s.Write(b)
	return s.Sum(time.Time{})
}

// What differs is named by block.
func TestDiffers(t *testing.T) {
	b := content()
	should := sumOf(b)
	for _, c := range []struct {
		change func(b []byte) []byte
		want   string
	}{
		{func(b []byte) []byte { return b }, ""},
		{func(b []byte) []byte { b[BlockSize]++; return b }, "block 1 (bytes 1048576 to 2097151) differs"},
		{func(b []byte) []byte { b[len(b)-1]++; return b }, "block 2 (bytes 2097152 to 2621439) differs"},
		{func(b []byte) []byte { b[0]++; b[len(b)-1]++; return b },
			"2 blocks of 1 MiB differ, the first is block 0 (from byte 0), the last block 2"},
		{func(b []byte) []byte { return b[:BlockSize] }, "has 1048576 bytes and had 2621440; 2 blocks of 1 MiB " +
			"differ, the first is block 1 (from byte 1048576), the last block 2"},
		{func(b []byte) []byte { return append(b, 0) }, "has 2621441 bytes and had 2621440; block 2"},
	} {
		got := sumOf(c.change(bytes.Clone(b))).Differs(should)
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// write commits files of a folder, "" for one that goes.
func write(t *testing.T, dir string, begin bool, files map[string]string) {
	t.Helper()
	set := &atomicfile.Set{}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if text == "" {
			set.Remove(path)
			continue
		}
		f := try.Get(atomicfile.Create(path))(t)
		if name == "teed" {
			f.Tee(NewSummer())
		}
		set.Add(f)
		try.Get(f.Write([]byte(text)))(t)
	}
	try.Do(t, commit(set, begin))
}

// The manifest follows the files of its folder, and equals one that is written by reading them.
func TestManifestFollows(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, false, map[string]string{"a": "first"})
	if m, err := Read(dir); m != nil || err != nil {
		t.Fatalf("begun unasked: %v, %v", m, err)
	}
	write(t, dir, true, map[string]string{"b": "second", "teed": "third"})
	write(t, dir, false, map[string]string{"b": "changed", "c": "new"})
	write(t, dir, false, map[string]string{"c": "", "d": "another"})
	kept := try.Get(Read(dir))(t)
	read := try.Get(Record(dir))(t)
	if !slices.Equal(kept.Names(), []string{"b", "d", "teed"}) ||
		!slices.Equal(read.Names(), []string{"a", "b", "d", "teed"}) {
		t.Fatalf("%+v, read %+v", kept, read)
	}
	for _, name := range kept.Names() {
		if kept.Files[name] != read.Files[name] {
			t.Errorf("%s: %+v while it was written, %+v read", name, kept.Files[name], read.Files[name])
		}
	}
	path := filepath.Join(dir, ManifestName)
	b := try.Get(os.ReadFile(path))(t)
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 4
		try.Do(t, os.WriteFile(path, bad, 0o666))
		try.Refuses(Read(dir))(t, "verify --record "+dir)
	}
}

// A patched array has no sum from its writer, and gets the right one.
func TestTeeThatCannotGoBack(t *testing.T) {
	dir := t.TempDir()
	f := try.Get(atomicfile.Create(filepath.Join(dir, "x")))(t)
	f.Tee(NewSummer())
	set := &atomicfile.Set{}
	set.Add(f)
	try.Get(f.Write([]byte("0 rows")))(t)
	try.Get(f.WriteAt([]byte("7"), 0))(t)
	try.Do(t, Commit(set))
	if m := try.Get(Read(dir))(t); m.Files["x"].SHA256 != fmt.Sprintf("%x", sha256.Sum256([]byte("7 rows"))) {
		t.Errorf("%+v", m)
	}
}

// A file of somebody else stays, whatever it is. One that the manifest lists is replaced, and so is what a command left
// that failed before its manifest was whole.
func TestFolderKeepsFilesOfOthers(t *testing.T) {
	dir := t.TempDir()
	write := func(replace bool) error {
		f := try.Get(NewFolder(dir))(t)
		f.Replace = replace
		defer f.Abort()
		if err := f.Write("a.md", atomicfile.Bytes([]byte("ours"))); err != nil {
			return err
		}
		return f.Commit()
	}
	path, elsewhere := filepath.Join(dir, "a.md"), filepath.Join(t.TempDir(), "b")
	for _, place := range []func() error{func() error { return os.WriteFile(path, []byte("mine"), 0o666) },
		func() error { return os.Symlink(elsewhere, path) }} {
		err := place()
		if err != nil && runtime.GOOS == "windows" { // which may have no links
			continue
		}
		try.Do(t, err)
		try.Fails(t, write(false), "a.md is there", "--record")
		if names := try.Get(os.ReadDir(dir))(t); len(names) != 1 {
			t.Errorf("a refusal leaves %v", names)
		}
		try.Do(t, os.Remove(path))
	}
	f := try.Get(NewFolder(dir))(t)
	try.Do(t, f.Write("a.md", atomicfile.Bytes(nil)))
	try.Do(t, f.announce()) // and then the power fails, after the file has its name
	f.Abort()
	try.Do(t, os.WriteFile(path, []byte("half"), 0o666))
	for range 2 {
		try.Do(t, write(false))
		m := try.Get(Read(dir))(t)
		if b := try.Get(os.ReadFile(path))(t); string(b) != "ours" || len(m.Writing) > 0 || !m.knows("a.md") {
			t.Errorf("%q, manifest %+v", b, m)
		}
	}
	try.Do(t, os.Remove(filepath.Join(dir, ManifestName)))
	try.Do(t, write(true))
}

func TestCheckOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	b := content()
	put := func(b []byte) {
		t.Helper()
		info, err := os.Stat(path)
		try.Do(t, os.WriteFile(path, b, 0o666))
		if err == nil {
			try.Do(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
		}
	}
	put(b)
	try.Get(Record(dir))(t)
	check := func(want string) {
		t.Helper()
		changed, err := CheckOpen(dir, "x", "not there")
		if want != "" {
			try.Fails(t, err, want)
		} else if err != nil || len(changed) > 0 {
			t.Errorf("%v, %v", changed, err)
		}
	}
	check("")
	for at, want := range map[int]string{0: "it differs in block 0 (from byte 0)",
		len(b) - 1:    "block 2 (from byte 2097152)",
		BlockSize + 1: ""} { // between them only Sum looks
		bad := bytes.Clone(b)
		bad[at]++
		put(bad)
		check(want)
	}
	put(b[:len(b)-1])
	check("it has 2621439 bytes and had 2621440; bring that file back")
	put(b)
	check("")
	try.Do(t, os.Chtimes(path, time.Now(), time.Now().Add(time.Hour)))
	if changed, err := CheckOpen(dir, "x"); err != nil || !slices.Equal(changed, []string{"x"}) {
		t.Errorf("another time: %v, %v", changed, err)
	}
}

// However a sealed text is changed, it is refused, or it is the text without its seal.
func TestSeal(t *testing.T) {
	for _, text := range []string{"{\n  \"a\": 1,\n  \"b\": {\"sha256\": \"x\"}\n}\n", "seed: 1\nmodel: {}\n", "2\n",
		""} {
		sealed := Seal([]byte(text))
		got, ok, err := Unseal(sealed)
		if string(got) != text || !ok || err != nil {
			t.Fatalf("%q: %q, %v, %v", text, got, ok, err)
		}
		if got, ok, err := Unseal([]byte(text)); string(got) != text || ok || err != nil {
			t.Errorf("%q without seal: %q, %v, %v", text, got, ok, err)
		}
		for n := range sealed {
			if _, ok, err := Unseal(sealed[:n]); err == nil && ok {
				t.Errorf("%q cut to %d bytes is taken", text, n)
			}
			for bit := range 8 {
				bad := bytes.Clone(sealed)
				bad[n] ^= 1 << bit
				got, ok, err := Unseal(bad)
				if err == nil && (ok || !bytes.HasSuffix(got, []byte(text[min(len(text), 2):]))) {
					t.Errorf("%q: byte %d, bit %d changed: %q is taken", text, n, bit, got)
				}
			}
		}
		if _, _, err := Unseal(append([]byte("x\n"), sealed...)); text[:min(1, len(text))] != "{" && !errors.Is(err,
			ErrDamaged) {
			t.Errorf("%q: a line before the seal: %v", text, err)
		}
	}
	if got := Seal([]byte("[1]\n")); string(got) != "[1]\n" {
		t.Errorf("a list: %q", got)
	}
}

// Marks tell versions of files apart by size, ends, and by all of the content where a manifest tells it.
func TestMarks(t *testing.T) {
	dir := t.TempDir()
	all := func(name string) bool { return name != ManifestName }
	b := content()
	for _, name := range []string{"x", "y"} {
		try.Do(t, os.WriteFile(filepath.Join(dir, name), b, 0o666))
	}
	plain := try.Get(MarksOf(dir, all))(t)
	try.Get(Record(dir))(t)
	known := try.Get(MarksOf(dir, all))(t)
	if len(plain) != 2 || plain["x"].SHA256 != "" || known["x"].SHA256 == "" || len(plain.Changed(known)) > 0 {
		t.Fatalf("%v, recorded %v", plain, known)
	}
	b[BlockSize] ^= 1 // far from both ends
	try.Do(t, os.WriteFile(filepath.Join(dir, "x"), b, 0o666))
	try.Get(Record(dir))(t)
	now := try.Get(MarksOf(dir, all))(t)
	if !slices.Equal(known.Changed(now), []string{"x"}) || len(plain.Changed(now)) > 0 {
		t.Errorf("%v and %v", known, now)
	}
	try.Do(t, os.WriteFile(filepath.Join(dir, "y"), b[1:], 0o666))
	if now = try.Get(MarksOf(dir, all))(t); !slices.Equal(plain.Changed(now), []string{"y"}) {
		t.Errorf("%v and %v", plain, now)
	}
	if _, err := MarksOf(filepath.Join(dir, "no"), all); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

func add(path, note, data string) error {
	return Append(path, []byte("head"), []byte("{"+note+"}"), func(w io.Writer) error {
		_, err := io.WriteString(w, data)
		return err
	})
}

// all is what a journal holds.
func all(t *testing.T, path string) string {
	t.Helper()
	j := try.Get(Open(path))(t)
	defer j.Close()
	out := string(j.Head)
	for i, r := range j.Records {
		b := make([]byte, r.Size)
		try.Do(t, j.ReadAt(b, i, 0))
		out += fmt.Sprintf(" %s:%s", strings.Trim(string(r.Note), "{}"), b)
	}
	return out
}

// Whatever a kill leaves of the last record, the earlier ones are there, and the next one follows them.
func TestEveryEnd(t *testing.T) {
	path := filepath.Join(try.MemoryDir(t), "j")
	for _, r := range [][2]string{{"one", "1"}, {"two", ""}} {
		try.Do(t, add(path, r[0], r[1]))
	}
	two := try.Get(os.ReadFile(path))(t)
	try.Do(t, add(path, "three", "333"))
	three := try.Get(os.ReadFile(path))(t)
	if got := all(t, path); got != "head one:1 two: three:333" {
		t.Fatal(got)
	}
	cut := filepath.Join(try.MemoryDir(t), "cut")
	for n := len(two); n < len(three); n++ {
		zeros := append(bytes.Clone(three[:n]), make([]byte, len(three)-n)...) // a file whose data were not written yet
		holes := bytes.Clone(three)
		copy(holes[len(two):], make([]byte, n-len(two)))
		for i, b := range [][]byte{three[:n], zeros, holes} {
			if i == 2 && n == len(two) {
				continue
			}
			try.Do(t, os.WriteFile(cut, b, 0o644))
			if got := all(t, cut); got != "head one:1 two:" {
				t.Fatalf("%d of %d bytes, kind %d: %s", n, len(three), i, got)
			}
			try.Do(t, add(cut, "four", "4"))
			if got := all(t, cut); got != "head one:1 two: four:4" {
				t.Fatalf("%d of %d bytes, kind %d: %s", n, len(three), i, got)
			}
		}
	}
}

// An error leaves the journal as it was.
func TestErrorKeeps(t *testing.T) {
	path := filepath.Join(try.MemoryDir(t), "j")
	try.Do(t, add(path, "one", "1"))
	before, _ := os.ReadFile(path)
	full := errors.New("full")
	err := Append(path, nil, []byte("{}"), func(w io.Writer) error {
		_, err := w.Write(make([]byte, 1<<16))
		return errors.Join(err, full)
	})
	after, _ := os.ReadFile(path)
	if !errors.Is(err, full) || !bytes.Equal(before, after) {
		t.Errorf("%v; %d bytes, then %d", err, len(before), len(after))
	}
	if j, err := Open(path); err != nil || j.ReadAt(make([]byte, 2), 0, 0) == nil {
		t.Errorf("bytes of the next record are read (%v)", err)
	}
}

// What is not a journal is refused.
func TestNoJournal(t *testing.T) {
	path := filepath.Join(try.MemoryDir(t), "j")
	try.Do(t, add(path, "one", "1"))
	good, _ := os.ReadFile(path)
	for _, c := range []struct{ text, want string }{{"", "not a journal"},
		{"VSEJRNL2" + string(good[8:]), "not a journal"},
		{magic + "\xff\xff\xff\x00abcd", "a head of"}, {strings.Replace(string(good), "head", "heat", 1), "checksum"}} {
		try.Do(t, os.WriteFile(path, []byte(c.text), 0o644))
		try.Refuses(Open(path))(t, c.want)
		if add(path, "two", "2") == nil {
			t.Errorf("%.20q: appended", c.text)
		}
	}
}

func FuzzOpen(f *testing.F) {
	path := filepath.Join(try.MemoryDir(f), "j")
	try.Do(f, errors.Join(add(path, "one", "1"), add(path, "two", "22")))
	good := try.Get(os.ReadFile(path))(f)
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(try.MemoryDir(t), "j")
		try.Do(t, os.WriteFile(path, b, 0o644))
		j, err := Open(path)
		if err != nil {
			return
		}
		defer j.Close()
		for i, r := range j.Records {
			if r.Size > int64(len(b)) || j.ReadAt(make([]byte, r.Size), i, 0) != nil {
				t.Errorf("record %d of %d bytes", i, r.Size)
			}
		}
	})
}

// A record that is damaged in front of a whole one is an error, and nothing behind it is cut off.
func TestDamageInside(t *testing.T) {
	path := filepath.Join(try.MemoryDir(t), "j")
	for _, note := range []string{"one", "two", "three"} {
		try.Do(t, add(path, note, strings.Repeat("\x00", 3<<19)))
	}
	whole := try.Get(os.ReadFile(path))(t)
	j := try.Get(Open(path))(t)
	second := j.Records[1].at - int64(len("{two}")) - recordSize
	j.Close()
	for _, at := range []int64{0, 5, 17, recordSize + 1} {
		b := bytes.Clone(whole)
		b[second+at] ^= 1
		try.Do(t, os.WriteFile(path, b, 0o644))
		for _, err := range map[string]error{"read": Verify(path), "add": add(path, "four", "4")} {
			try.Fails(t, err, fmt.Sprintf("record 1, at byte %d, is damaged", second))
		}
		if now, _ := os.ReadFile(path); !bytes.Equal(now, b) {
			t.Errorf("byte %d: the file was changed", at)
		}
	}
}

// Numbers that may be the lengths of notes, as an interrupted addition of sparse features leaves them, are not read as
// notes; what is made to be read again and again is refused.
func TestTailThatLooksLikeRecords(t *testing.T) {
	path := filepath.Join(try.MemoryDir(t), "j")
	try.Do(t, add(path, "one", "1"))
	whole := try.Get(os.ReadFile(path))(t)
	for fill, want := range map[string]string{"": "", "{}": "much that may be the beginning"} {
		block := make([]byte, 16)
		binary.LittleEndian.PutUint32(block, 1<<19+2) // the length of a note, which begins and ends where fill does
		copy(block[4:], fill)
		try.Do(t, os.WriteFile(path, append(bytes.Clone(whole), bytes.Repeat(block, 1<<16)...), 0o644))
		if j, err := Open(path); want != "" {
			try.Fails(t, err, want)
		} else {
			try.Do(t, err)
			j.Close()
		}
	}
}

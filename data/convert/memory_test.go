package convert

import (
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

// endless is a source file of n images that is computed as it is read: the same 36 x 2048 features under different ids.
// Every record has the same length, so that it can be read at any place too.
type endless struct {
	n      int
	record string // after the id
	at     int64
}

const idDigits = 8

func newEndless(n int) *endless {
	p := made("x", 36, 2048)
	_, rest, _ := strings.Cut(p.line(), "\t")
	return &endless{n: n, record: "\t" + rest + "\n"}
}

func (e *endless) length() int64 { return int64(idDigits + len(e.record)) }
func (e *endless) size() int64   { return int64(e.n) * e.length() }

// ReadAt implements io.ReaderAt. Ids start at 10000000 and run backwards through the file.
func (e *endless) ReadAt(b []byte, off int64) (int, error) {
	done := 0
	for done < len(b) {
		i, in := (off+int64(done))/e.length(), int((off+int64(done))%e.length())
		if i >= int64(e.n) {
			return done, io.EOF
		}
		if in < idDigits {
			done += copy(b[done:], strconv.Itoa(10000000 + e.n - 1 - int(i))[in:])
		} else {
			done += copy(b[done:], e.record[in-idDigits:])
		}
	}
	return done, nil
}

func (e *endless) Read(b []byte) (int, error) {
	n, err := e.ReadAt(b, e.at)
	e.at += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// convert converts the source to float16.
func (e *endless) convert(t testing.TB, out string, split Split, progress Progress) *Report {
	t.Helper()
	e.at = 0
	c := &conversion{Options: to(out, split), Report: Report{Rows: map[string]int{}}, progress: progress}
	c.DType, c.SourceType = npy.F16, "f32"
	try.Do(t, c.records([]source{{name: "endless", r: e, at: e, bytes: e.size()}}))
	return &c.Report
}

// A source of 200 MB must be converted in a few megabytes, both ways; what counts is that the memory does not depend on
// the length of the source.
func TestMemoryIsThatOfOneRecord(t *testing.T) {
	const n = 510
	src := newEndless(n)
	if src.size() < 200e6 {
		t.Fatalf("the source has only %d bytes", src.size())
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	dir := t.TempDir()
	var ids strings.Builder
	for i := range n {
		if i%10 == 0 {
			fmt.Fprintln(&ids, 10000000+i)
		}
	}
	for name, split := range map[string]Split{"stream": {Name: "a"},
		"ids": {Name: "a", IDs: write(t, dir, "ids.txt", ids.String())}} {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		before, most := m.HeapInuse, m.HeapInuse
		written := int64(0)
		watch := func(phase string, done, _ int64) {
			if phase == "write" {
				written = done
			}
			if done%16 == 0 {
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapInuse)
			}
		}
		rep := src.convert(t, filepath.Join(dir, name), split, watch)
		want := n
		if split.IDs != "" {
			want = n / 10
		}
		if rep.Rows["a"] != want || written != int64(want) || rep.Records != n {
			t.Errorf("%s: report %+v, want %d rows", name, rep, want)
		}
		if used := int64(most) - int64(before); used > 24<<20 {
			t.Errorf("%s: %d MB of heap for a record of %d kB", name, used>>20, src.length()>>10)
		}
	}
}

// BenchmarkTSV reports the speed in bytes of the source: a 60 GB file is read twice when an ids file orders it.
func BenchmarkTSV(b *testing.B) {
	src := newEndless(100)
	b.SetBytes(src.size())
	for b.Loop() {
		src.convert(b, b.TempDir(), Split{Name: "a"}, nil)
	}
}

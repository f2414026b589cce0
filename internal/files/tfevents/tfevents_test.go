package tfevents

import (
	"bufio"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"vsetrain/lab/try"
)

var started = time.Unix(1700000000, 250_000_000)

func create(t *testing.T) *Writer {
	t.Helper()
	w := try.Get(Create(t.TempDir(), started, "host one/2"))(t)
	t.Cleanup(func() { w.Close() })
	return w
}

func TestRoundTrip(t *testing.T) {
	w := create(t)
	if name := filepath.Base(w.path); name != "events.out.tfevents.1700000000.host_one_2" {
		t.Errorf("name %q", name)
	}
	later := started.Add(90 * time.Second)
	try.Do(t, w.Scalar("train/loss", 300, later, -1.5))
	try.Do(t, w.Scalar("zero", 0, later, 0))
	try.Do(t, w.Start(301, later))
	try.Do(t, w.Flush())
	got := try.Get(Read(w.path))(t)
	want := []Event{
		{Wall: started, FileVersion: "brain.Event:2"},
		{Wall: later, Step: 300, Tag: "train/loss", Value: -1.5},
		{Wall: later, Tag: "zero"},
		{Wall: later, Step: 301, Start: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestBytes fixes the encoding: a scalar as TensorBoard's own record writer writes it, byte for byte.
func TestBytes(t *testing.T) {
	e := Event{Wall: time.Unix(2, 0), Step: 3, Tag: "a", Value: 1}
	got := hex.EncodeToString(appendRecord(nil, e.encode()))
	// length 23, its checksum; wall_time 2.0; step 3; summary { value { tag "a" simple_value 1.0 } }; checksum
	const want = "1700000000000000" + "e7cef81e" + "090000000000000040" + "1003" + "2a0a" + "0a08" + "0a0161" +
		"150000803f" + "1243717c"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// What makes TensorBoard discard later steps: session_log { status: START }.
	e = Event{Wall: time.Unix(2, 0), Step: 3, Start: true}
	if got := hex.EncodeToString(e.encode()); got != "090000000000000040"+"1003"+"3a02"+"0801" {
		t.Error(got)
	}
	// The checksum of the standard check input is 0xe3069283, masked as TensorBoard computes it.
	if got := maskedCRC([]byte("123456789")); got != 0xc78ab0e5 {
		t.Errorf("%#x, want 0xc78ab0e5", got)
	}
}

// TestHParamsBytes fixes the settings of a run, byte for byte as hparams_pb of TensorBoard 2.21 writes them
// (tensorboard/plugins/hparams/summary_v2.py, start_time_secs=2.0, an event with wall_time 2.0).
func TestHParamsBytes(t *testing.T) {
	const head, tag, tensor = "090000000000000040", "0a1c" + "5f68706172616d735f2f73657373696f6e5f73746172745f696e666f",
		"4206080112021200"
	for _, c := range []struct {
		settings map[string]any
		want     string
	}{
		{map[string]any{"optim.lr": 0.001}, head + "2a59" + "0a57" + tag + tensor +
			"4a2f0a2d0a0768706172616d7312221a200a150a086f7074696d2e6c72120911fca9f1d24d62503f290000000000000040"},
		{map[string]any{"loss.name": "lseh"}, head + "2a57" + "0a55" + tag + tensor +
			"4a2d0a2b0a0768706172616d7312201a1e0a130a096c6f73732e6e616d6512061a046c736568290000000000000040"},
		{map[string]any{"train.shuffle": true}, head + "2a57" + "0a55" + tag + tensor +
			"4a2d0a2b0a0768706172616d7312201a1e0a130a0d747261696e2e73687566666c6512022001290000000000000040"},
		{map[string]any{"a": false}, head + "2a4b" + "0a49" + tag + tensor +
			"4a210a1f0a0768706172616d7312141a120a070a016112022000290000000000000040"},
	} {
		e := Event{Wall: time.Unix(2, 0), Tag: hparamsTag, HParams: c.settings}
		if got := hex.EncodeToString(e.encode()); got != c.want {
			t.Errorf("%v:\ngot  %s\nwant %s", c.settings, got, c.want)
		}
	}
}

// Settings of other types are refused, and those that are written read back as an event without a value that resuming
// keeps.
func TestHParams(t *testing.T) {
	w := create(t)
	try.Fails(t, w.HParams(started, map[string]any{"a": 1}), "a is a int")
	try.Do(t, w.HParams(started, map[string]any{"b": "x", "a": 1.5, "c": true}))
	try.Do(t, w.Close())
	try.Fails(t, w.Scalar("a", 1, started, 1), "closed")
	try.Fails(t, w.Close(), "closed")
	got, err := Read(w.path)
	if err != nil || len(got) != 2 || !reflect.DeepEqual(got[1], Event{Wall: started, Tag: hparamsTag}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestTruncate cuts two files at their first event of a step after 2, and one that a kill left in the middle of a
// record.
func TestTruncate(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for _, steps := range [][]int64{{1, 2, 3, 1}, {5}, {1, 2}} {
		w := try.Get(Create(dir, started, "h"))(t)
		for _, s := range steps {
			try.Do(t, w.Scalar("a", s, started, float32(s)))
		}
		try.Do(t, w.Close())
		paths = append(paths, w.path)
	}
	if info, err := os.Stat(paths[2]); err != nil || os.Truncate(paths[2], info.Size()-1) != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "metrics.jsonl")
	try.Do(t, os.WriteFile(other, []byte("not events"), 0o666))
	try.Do(t, Truncate(dir, func(e Event) bool { return e.Step <= 2 }))
	for i, want := range [][]int64{{0, 1, 2}, {0}, {0, 1}} {
		events := try.Get(Read(paths[i]))(t)
		var got []int64
		size := 0
		for _, e := range events {
			got = append(got, e.Step)
			size += len(appendRecord(nil, e.encode()))
		}
		info, err := os.Stat(paths[i])
		if err != nil || !reflect.DeepEqual(got, want) || info.Size() != int64(size) {
			t.Errorf("file %d holds steps %v in %d bytes, want %v in %d; %v", i, got, info.Size(), want, size, err)
		}
	}
	if b, err := os.ReadFile(other); err != nil || string(b) != "not events" {
		t.Errorf("another file became %q, %v", b, err)
	}
	try.Fails(t, Truncate(filepath.Join(dir, "none"), nil), "no such file")
}

// A file that cannot be read is not cut: only an end and a broken record are an end.
func TestTruncateAfterAReadError(t *testing.T) {
	record := appendRecord(nil, (&Event{Step: 1, Tag: "a"}).encode())
	all := func(Event) bool { return true }
	failure := errors.New("input/output error")
	for n := range len(record) + 1 {
		r := io.MultiReader(strings.NewReader(string(record)), strings.NewReader(string(record[:n])),
			iotest.ErrReader(failure))
		if _, err := intact(r, all); !errors.Is(err, failure) {
			t.Fatalf("%d bytes of a record before the failure: %v", n, err)
		}
		end, err := intact(strings.NewReader(string(record)+string(record[:n])), all)
		if want := int64(len(record) * (1 + n/len(record))); end != want || err != nil {
			t.Fatalf("%d bytes of a record before the end: %d bytes kept, %v, want %d", n, end, err, want)
		}
	}
}

func TestTruncatedTail(t *testing.T) {
	w := create(t)
	try.Do(t, w.Scalar("a", 1, started, 1))
	try.Do(t, w.Close())
	b := try.Get(os.ReadFile(w.path))(t)
	first := len(appendRecord(nil, (&Event{Wall: started, FileVersion: fileVersion}).encode()))
	for n := range b {
		events, err := read(strings.NewReader(string(b[:n])))
		want := 0
		if n >= first {
			want = 1
		}
		if err != nil || len(events) != want {
			t.Fatalf("%d bytes: %d events, %v; want %d", n, len(events), err, want)
		}
	}
	for i := range b {
		flipped := append([]byte(nil), b...)
		flipped[i] ^= 1
		try.Refuses(read(strings.NewReader(string(flipped))))(t, "checksum")
	}
}

func TestSecondFileInOneSecond(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		w := try.Get(Create(dir, started, ""))(t)
		try.Do(t, w.Close())
	}
	files, _ := filepath.Glob(filepath.Join(dir, "events.out.tfevents.1700000000.localhost*"))
	if len(files) != 2 {
		t.Errorf("files %v", files)
	}
	try.Refuses(Create(filepath.Join(dir, "none"), started, "h"))(t, "no such file")
}

func TestConcurrentWriters(t *testing.T) {
	w := create(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 500 {
				w.Scalar("a", int64(i), started, float32(i))
			}
		})
	}
	wg.Wait()
	try.Do(t, w.Flush())
	if events, err := Read(w.path); err != nil || len(events) != 2001 {
		t.Errorf("%d events, %v", len(events), err)
	}
}

func FuzzRead(f *testing.F) {
	for _, e := range []Event{{FileVersion: fileVersion}, {Tag: "a", Step: -1, Value: 2}} {
		f.Add(e.encode(), []byte{})
	}
	f.Fuzz(func(t *testing.T, message, tail []byte) {
		// Frame the message, so that the checksums do not shield the decoder.
		events, err := read(strings.NewReader(string(append(appendRecord(nil, message), tail...))))
		if err == nil && len(events) == 0 {
			t.Fatal("a whole record gave no event")
		}
		_, _ = read(strings.NewReader(string(message)))
	})
}

// A full disk is an error with a remedy, which stays.
func TestFullDisk(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no full device")
	}
	w := &Writer{f: f, path: "/dev/full", buf: bufio.NewWriter(f)}
	try.Do(t, w.Scalar("a", 1, time.Now(), 1))
	for range 2 {
		try.Fails(t, w.Flush(), "write /dev/full: no space left on device; free space and resume")
	}
	w.Close()
}

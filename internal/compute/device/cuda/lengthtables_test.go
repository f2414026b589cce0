package cuda_test

import (
	"slices"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// The tables of lengths and of words are made once and kept until lengths or words change, in whatever way. A recording
// makes its own, which hold for the lengths and words of each replay.
func TestLengthTables(t *testing.T) {
	b := newBench(t, cuda.Options{})
	const width, l = 2, 3
	word := b.floats(1, 2, 3, 4, 5, 6, 7, 8)
	lengths := device.Ints{Host: []int32{3, 2}, Bounded: true, View: b.ints(3, 2)}
	out := b.alloc(device.Float, 5*width)
	words := device.Ints{Host: []int32{0, 1, 2, 3, 0, 0}, View: b.ints(0, 1, 2, 3, 0, 0)}
	gather := func() {
		device.Do(b.Device, device.GatherWords{V: 4, D: width, L: l, Lengths: lengths, Words: words, Table: word,
			Out: out})
	}
	want := func(when string, launches int, do func(), want ...float32) {
		t.Helper()
		try.Do(t, b.Sync())
		before := emulator.Launches(t)
		do()
		got := make([]float32, 5*width)
		b.DownloadFloats(got, out)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
		if n := emulator.Launches(t) - before; n != launches {
			t.Errorf("%s: %d launches, want %d", when, n, launches)
		}
	}
	full := []float32{1, 2, 7, 8, 3, 4, 1, 2, 5, 6}
	short := []float32{1, 2, 7, 8, 3, 4, 0, 0, 0, 0}
	want("at first", 3, gather, full...)
	want("with the same lengths and words", 1, gather, full...)
	b.UploadInts(words.View, []int32{3, 1, 2, 3, 0, 0})
	want("with other words", 2, gather, 7, 8, 7, 8, 3, 4, 1, 2, 5, 6)
	device.Do(b.Device, device.Copy{Dst: words.View, Src: b.ints(0, 1, 2, 3, 0, 0)})
	want("with the first words", 2, gather, full...)
	b.UploadInts(lengths.View, []int32{2, 1})
	want("after an upload", 3, gather, short...)
	device.Do(b.Device, device.Copy{Dst: lengths.View, Src: b.ints(3, 2)})
	want("after a copy", 3, gather, full...)
	list, first, index := b.ints(2, 1), b.ints(0, 2), b.ints(0)
	device.Do(b.Device, device.GatherLists{Dst: lengths.View, Values: list, Starts: first, Index: index, Width: 2})
	want("after a kernel", 3, gather, short...)

	b.UploadInts(lengths.View, []int32{3, 2})
	gather()
	recorder := b.Device.(device.Recorder)
	r := try.Get(recorder.Record(gather))(t)
	b.UploadInts(lengths.View, []int32{2, 1})
	want("recorded, which is no launch", 0, func() { recorder.Replay(r) }, short...)
	want("after a replay", 3, gather, short...)
	b.UploadInts(words.View, []int32{3, 1, 2, 3, 0, 0})
	want("a replay with other words", 0, func() { recorder.Replay(r) }, 7, 8, 7, 8, 3, 4, 0, 0, 0, 0)
}

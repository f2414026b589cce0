package data

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"vsetrain/internal/files/disk"
	"vsetrain/internal/files/npy"
	"vsetrain/lab/crash"
	"vsetrain/lab/try"
)

// gallery is a split test of n images without captions, each 3 x 4 values, with boxes where asked.
func gallery(t testing.TB, n int, boxes bool) *world {
	t.Helper()
	w := newWorld(t, n, 1, false, "train")
	if boxes {
		w.boxes(t)
	}
	os.Remove(w.path("train_caps.txt"))
	for _, end := range []string{"_ims.npy", "_ids.txt", "_boxes.npy", "_sizes.npy"} {
		if err := os.Rename(w.path("train"+end), w.path("test"+end)); err != nil && (boxes || !missing(err)) {
			t.Fatal(err)
		}
	}
	return w
}

// features writes features v, v+1, … and boxes of images that are added.
func features(boxes bool, values ...float32) func(io.Writer) error {
	return func(w io.Writer) error {
		for _, v := range values {
			row := make([]float32, 12)
			for i := range row {
				row[i] = v + float32(i)
			}
			if boxes {
				row = append(row, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
			}
			if err := binary.Write(w, binary.LittleEndian, row); err != nil {
				return err
			}
		}
		return nil
	}
}

func added(ids ...string) (out []NewImage) {
	for _, id := range ids {
		out = append(out, NewImage{id, 20, 40})
	}
	return out
}

// held is what a split has: ids with the first value of their features.
func held(t testing.TB, s *Split) string {
	t.Helper()
	var out []string
	row := make([]float32, 12)
	for i, id := range ImageIDs(s) {
		try.Do(t, s.ReadImage(row, s.RowOf(i)))
		out = append(out, fmt.Sprintf("%s=%v", id, row[0]))
	}
	return strings.Join(out, " ")
}

// Images come and go in the order of the changes. Files stay as they are.
func TestAmend(t *testing.T) {
	for _, boxes := range []bool{false, true} {
		w := gallery(t, 4, boxes)
		before, o := w.read(t, "test_ims.npy"), OpenOptions{Partial: true, Boxes: boxes}
		for _, c := range []struct {
			change Change
			values []float32
			want   string
			kind   error
		}{
			{Change{Added: added("a", "b")}, []float32{50, 60}, "im0=0 im1=1 im2=2 im3=3 a=50 b=60", nil},
			{Change{Removed: []string{"im1", "a"}}, nil, "im0=0 im2=2 im3=3 b=60", nil},
			{Change{Removed: []string{"im3"}, Added: added("im1")}, []float32{70}, "im0=0 im2=2 b=60 im1=70", nil},
			{Change{Removed: []string{"im3", "a"}}, nil, "im0=0 im2=2 b=60 im1=70", nil}, // again
			{Change{Removed: []string{"im0", "nobody"}}, nil, "im0=0 im2=2 b=60 im1=70", ErrNoImage},
			{Change{Added: added("c", "b")}, []float32{1, 2}, "im0=0 im2=2 b=60 im1=70", ErrImageExists},
			{Change{Added: added("c", "c")}, []float32{1, 2}, "im0=0 im2=2 b=60 im1=70", ErrImageExists},
			{Change{Removed: []string{"im0", "im2", "b", "im1"}}, nil, "im0=0 im2=2 b=60 im1=70",
				errors.New("no image would be left")},
			{Change{Added: added("two\nlines")}, []float32{1}, "im0=0 im2=2 b=60 im1=70", errors.New("control")},
			{Change{Added: added(" blank")}, []float32{1}, "im0=0 im2=2 b=60 im1=70", errors.New("blanks")},
			{Change{Added: added("")}, []float32{1}, "im0=0 im2=2 b=60 im1=70", errors.New("1 to 1024")},
			{Change{Added: added("c")}, nil, "im0=0 im2=2 b=60 im1=70", errors.New("0 bytes of 1 images")},
			{Change{Added: added("ü é.jpg")}, []float32{80}, "im0=0 im2=2 b=60 im1=70 ü é.jpg=80", nil},
		} {
			err := Amend(t.Context(), w.dir, "test", c.change, features(boxes, c.values...))
			if c.kind == nil && err != nil || c.kind != nil && (err == nil || !errors.Is(err, c.kind) &&
				!strings.Contains(err.Error(), c.kind.Error())) {
				t.Errorf("%+v: %v, want %v", c.change, err, c.kind)
			}
			s := w.open(t, "test", o)
			if got := held(t, s); got != c.want {
				t.Fatalf("%+v: %s, want %s", c.change, got, c.want)
			}
		}
		s := w.open(t, "test", o)
		if n, gone := Changed(s); n != 3 || gone != 2 || s.FeatureRows() != 5 || s.HalfFeatures() {
			t.Errorf("%d added, %d removed, %d rows", n, gone, s.FeatureRows())
		}
		if boxes {
			b := make([]float32, 12)
			if err := s.ReadBoxes(b, 4); err != nil || b[0] != 1./20 || b[11] != 12./40 {
				t.Errorf("boxes %v, %v", b, err)
			}
			if err := s.ReadBoxes(b, 1); err != nil || b[0] != 3./100 {
				t.Errorf("boxes of im2 %v, %v", b, err)
			}
		}
		original := held(t, w.open(t, "test", OpenOptions{Partial: true, Original: true}))
		if w.read(t, "test_ims.npy") != before || original != "im0=0 im1=1 im2=2 im3=3" {
			t.Error("the files have changed")
		}
		if r, err := Check(w.dir, CheckOptions{}); err != nil || !r.OK() || r.Splits[0].Images != 5 ||
			r.Splits[0].Added != 3 || r.Splits[0].Removed != 2 {
			t.Errorf("%+v, %v", r, err)
		}
		if l, err := NewImageLoader(s, LoaderOptions{Batch: 5}); err != nil {
			t.Error(err)
		} else if b, err := l.Next(); err != nil || b.Features[4*12] != 80 {
			t.Errorf("%v, %v", b, err)
		}
	}
}

// Changes belong to the files that they were made of, and to galleries.
func TestChangesOfOthers(t *testing.T) {
	w := gallery(t, 4, false)
	try.Do(t, Amend(t.Context(), w.dir, "test", Change{Added: added("nan")}, features(false, float32(math.NaN()))))
	if r, err := Check(w.dir, CheckOptions{}); err != nil || r.OK() || !strings.Contains(problems(r),
		"error test_changes.bin: ") || !strings.Contains(problems(r), "must be finite") {
		t.Errorf("%+v, %v", r, err)
	}
	for name, c := range map[string]struct {
		spoil func()
		want  string
	}{
		"other ids": {func() { w.write(t, "test_ids.txt", "a\nb\nc\nd\n") },
			"changes of other files, of 4 images of 3 x 4 float32"},
		"other features": {func() { w.array(t, "test_ims.npy", []int{4, 2, 6}, make([]float32, 48)) },
			"bring the earlier"},
		"captions": {func() { w.write(t, "test_caps.txt", strings.Repeat("x\n", 4)) }, "has captions"},
	} {
		ids, ims := w.read(t, "test_ids.txt"), w.read(t, "test_ims.npy")
		c.spoil()
		try.Refuses(Open(w.dir, "test", OpenOptions{Partial: true}))(t, c.want)
		if Amend(t.Context(), w.dir, "test", Change{Removed: []string{"im1"}}, nil) == nil {
			t.Errorf("%s: amended", name)
		}
		w.write(t, "test_ids.txt", ids)
		w.write(t, "test_ims.npy", ims)
		os.Remove(w.path("test_caps.txt"))
	}
	w.write(t, "test_caps.txt", strings.Repeat("x\n", 4))
	w.write(t, "test_changes.bin", "of another program") // training and evaluation do not look at it
	if s := w.open(t, "test", OpenOptions{}); s.NumImages() != 4 {
		t.Errorf("%d images", s.NumImages())
	}
	try.Refuses(Open(w.dir, "test", OpenOptions{Partial: true}))(t, "not a journal")
	w = newWorld(t, 4, 5, true, "test")
	os.Remove(w.path("test_caps.txt"))
	try.Fails(t, Amend(t.Context(), w.dir, "test", Change{Removed: []string{"im1"}}, nil), "20 rows of 4 images")
	w = gallery(t, 2, false)
	w.write(t, "test_ids.txt", "a\nb\n")
	w.typed(t, "test_ims.npy", npy.F16, []int{2, 3, 4}, make([]float32, 24))
	half := make([]byte, 24)
	half[1] = 0x3c // 1
	try.Do(t, Amend(t.Context(), w.dir, "test", Change{Added: added("c")}, func(to io.Writer) error {
		_, err := to.Write(half)
		return err
	}))
	s := w.open(t, "test", OpenOptions{Partial: true})
	if d, boxes := FeatureDType(s); held(t, s) != "a=0 b=0 c=1" || d != npy.F16 || boxes {
		t.Errorf("%s, %v, %v", held(t, s), d, boxes)
	}
}

// Changes that are made at the same time follow each other, and an open split stays what it was.
func TestAmendTogether(t *testing.T) {
	w := gallery(t, 2, false)
	before := w.open(t, "test", OpenOptions{Partial: true})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			err := Amend(t.Context(), w.dir, "test", Change{Added: added(fmt.Sprint(i))}, features(false, float32(i)))
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s := w.open(t, "test", OpenOptions{Partial: true})
	got := strings.Fields(held(t, s))
	slices.Sort(got)
	if strings.Join(got, " ") != "0=0 1=1 2=2 3=3 4=4 5=5 6=6 7=7 im0=0 im1=1" || held(t, before) != "im0=0 im1=1" {
		t.Errorf("%v; before %s", got, held(t, before))
	}
}

var workRounds = flag.Int("work-rounds", 1, "sizes of a gallery that TestWorkOfRemovals multiplies by ten")

// Ten times as many ids over ten times as many changes take ten times the work, also where no id is there any more.
func TestWorkOfRemovals(t *testing.T) {
	work := func(n int) float64 {
		w := gallery(t, 2, false)
		gone := make([]string, n)
		for i := range gone {
			gone[i] = fmt.Sprint("gone", i)
			c := Change{Added: added(gone[i])}
			if i > 0 {
				c.Removed = gone[i-1 : i]
			}
			try.Do(t, Amend(t.Context(), w.dir, "test", c, features(false, 1)))
		}
		gone = gone[:n-1]
		return testing.AllocsPerRun(1, func() {
			try.Do(t, Amend(t.Context(), w.dir, "test", Change{Removed: gone}, nil))
		})
	}
	for i := range *workRounds {
		n := 10 + i
		if few, many := work(n), work(10*n); many > 11*few {
			t.Fatalf("%d changes and ids: %.0f allocations; %d: %.0f", n, few, 10*n, many)
		}
	}
	t.Logf("campaign: removals of ten times as much: %d found, %[1]d tried, 0 failed", *workRounds)
}

// A change waits for another no longer than it is told to.
func TestAmendIsBounded(t *testing.T) {
	w := gallery(t, 2, false)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := Amend(t.Context(), w.dir, "test", Change{Added: added("a")}, func(to io.Writer) error { // holds the lock
		inner := Amend(ctx, w.dir, "test", Change{Removed: []string{"im0"}}, nil)
		if !errors.Is(inner, context.DeadlineExceeded) {
			t.Errorf("beside another: %v", inner)
		}
		return features(false, 5)(to)
	})
	try.Do(t, err)
	err = Amend(ctx, w.dir, "test", Change{Removed: []string{"im0"}}, nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after its time: %v", err)
	}
	if got := held(t, w.open(t, "test", OpenOptions{Partial: true})); got != "im0=0 im1=1 a=5" {
		t.Error(got)
	}
}

// Wherever the disk is full while images are added, the error says so and the images are the same as before; with room
// the same addition works.
func TestAmendOnFullDisk(t *testing.T) {
	c := Change{Added: added("b", "c"), Removed: []string{"im0"}}
	for at := 0; ; at++ {
		w := gallery(t, 2, false)
		try.Do(t, Amend(t.Context(), w.dir, "test", Change{Added: added("a")}, features(false, 50)))
		amend := func() error {
			t.Helper()
			err := Amend(t.Context(), w.dir, "test", c, features(false, 60, 70))
			if got := held(t, w.open(t, "test", OpenOptions{Partial: true})); err != nil && got != "im0=0 im1=1 a=50" ||
				err == nil && got != "im1=1 a=50 b=60 c=70" {
				t.Errorf("full at call %d: %s, %v", at, got, err)
			}
			return err
		}
		restore := disk.Use(&crash.Faults{At: map[int]string{at: crash.ShortWrite}})
		err := amend()
		if restore(); err == nil && at > 3 {
			return
		}
		if !disk.Full(err) {
			t.Errorf("full at call %d: %v", at, err)
		}
		try.Do(t, amend())
	}
}

// Unchanged tells which images are the same, in the files and outside, and compares where the files are others.
func TestUnchanged(t *testing.T) {
	w := gallery(t, 4, true)
	o := OpenOptions{Partial: true, Boxes: true}
	first := w.open(t, "test", o)
	try.Do(t, errors.Join(
		Amend(t.Context(), w.dir, "test", Change{Removed: []string{"im1"}, Added: added("a")}, features(true, 50)),
		Amend(t.Context(), w.dir, "test", Change{Removed: []string{"im2"}, Added: added("im1")}, features(true, 60))))
	second := w.open(t, "test", o)
	check := func(what string, a, b *Split, want ...int32) {
		t.Helper()
		if got, err := Unchanged(a, b); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v (%v)", what, got, want, err)
		}
	}
	check("changed", first, second, 0, 3, -1, -1)
	check("the same", second, w.open(t, "test", o), 0, 1, 2, 3)
	os.Remove(ChangesFile(w.dir, "test"))
	again := Change{Removed: []string{"im1"}, Added: added("a")}
	try.Do(t, Amend(t.Context(), w.dir, "test", again, features(true, 51)))
	third := w.open(t, "test", o) // im0 im2 im3 a, another a
	check("another journal", second, third, 0, -1, 1, -1)
	data := make([]float32, 36)
	for i := range data {
		data[i] = w.feature(2-i/12, i%12)
	}
	os.Remove(ChangesFile(w.dir, "test"))
	w.array(t, "test_ims.npy", []int{3, 3, 4}, data) // features of im2, im1, im0
	w.write(t, "test_ids.txt", "im2\nim1\nother\n")
	w.array(t, "test_sizes.npy", []int{3, 2}, sizes(3))
	boxes := make([]float32, 36)
	for i := range boxes {
		r := i / 4 % 3
		boxes[i] = float32(2 + r + []int{1, 2, 11, 22}[i%4])
	}
	w.array(t, "test_boxes.npy", []int{3, 3, 4}, boxes) // all are im2's
	check("other files", first, w.open(t, "test", o), 2, -1, -1)
}

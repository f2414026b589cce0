package data

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

// drawn is a split whose captions, rows and ids were written from known groups.
type drawn struct {
	counts   []int  // captions of each image
	repeated bool   // a row per caption
	ids      string // what has an id: "", images, captions, rows (numbers of the rows)
	same     bool   // all images have as many captions
}

func (d drawn) String() string {
	return fmt.Sprintf("%d images, captions %v, repeated %v, ids of %q", len(d.counts),
		d.counts[:min(8, len(d.counts))], d.repeated, d.ids)
}

func drawSplit(rng *rand.Rand) drawn {
	d := drawn{counts: make([]int, 2+rng.IntN(30)), repeated: rng.IntN(2) == 0, same: rng.IntN(2) == 0,
		ids: []string{"", "images", "captions", "rows"}[rng.IntN(4)]}
	k := []int{1, 2, 3, 5, 10, 20, 37}[rng.IntN(7)]
	for i := range d.counts {
		if d.counts[i] = k; !d.same {
			d.counts[i] = []int{1, 1 + rng.IntN(7), 2 * (1 + rng.IntN(4))}[k%3]
		}
	}
	if d.same = slices.Min(d.counts) == slices.Max(d.counts); !d.same {
		d.ids = []string{"", "captions"}[rng.IntN(2)] // nothing else can say so, but
		if d.repeated && rng.IntN(2) == 0 {
			d.ids = "images" // together with rows
		}
		sum := 0
		for _, n := range d.counts {
			sum += n
		}
		if !d.repeated && d.ids == "" && sum%len(d.counts) == 0 { // nothing says that they differ
			d.counts[0]++
		}
	}
	return d
}

// write writes the files of split x into dir, and returns the image of each row. An image in ten has features of zeros;
// two of a kind are never neighbours.
func (d drawn) write(t *testing.T, rng *rand.Rand, dir string) (ofRow []int) {
	t.Helper()
	var captions, ids []string
	for i, n := range d.counts {
		for j := range n {
			captions = append(captions, fmt.Sprintf("caption %d of image %d", j, i))
			if d.repeated || j == 0 {
				ofRow = append(ofRow, i)
			}
			if d.ids == "captions" || d.ids == "images" && j == 0 {
				ids = append(ids, fmt.Sprintf("im%d.jpg", i))
			}
		}
	}
	if d.ids == "rows" {
		for r := range ofRow {
			ids = append(ids, fmt.Sprint(r))
		}
	}
	width := 1 + rng.IntN(40)
	dtype := []npy.DType{npy.F16, npy.F32}[rng.IntN(2)]
	w := try.Get(npy.Create(dir+"/x_ims.npy", dtype, []int{len(ofRow), width}))(t)
	for _, i := range ofRow {
		row := make([]float32, width)
		if i%10 != 9 {
			row[width-1] = float32(1 + i%100)
		}
		try.Do(t, w.WriteFloat32(row))
	}
	try.Do(t, w.Close())
	try.Do(t, os.WriteFile(dir+"/x_caps.txt", []byte(strings.Join(captions, "\n")+"\n"), 0o644))
	os.Remove(dir + "/x_ids.txt")
	if len(ids) > 0 {
		try.Do(t, os.WriteFile(dir+"/x_ids.txt", []byte(strings.Join(ids, "\n")+"\n"), 0o644))
	}
	return ofRow
}

// told reports whether the files say how many captions each image has.
func (d drawn) told() bool { return d.same || d.ids != "" }

// However a data set is stored, each caption finds its own image or the split is refused; and where the files say how
// many captions an image has, it is opened. A number that the user gives changes nothing but that a wrong one is
// refused.
func TestCaptionsFindTheirImages(t *testing.T) {
	dir := try.MemoryDir(t)
	opened, refused := 0, 0
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 1))
		d := drawSplit(rng)
		ofRow := d.write(t, rng, dir)
		k := 0
		if d.same {
			k = d.counts[0]
		}
		wants := []int{0, 1 + rng.IntN(25)}
		if d.same {
			wants = append(wants, k)
		}
		for _, want := range wants {
			s, err := Open(dir, "x", OpenOptions{CaptionsPerImage: want})
			wrong := want > 0 && want != k
			if err != nil {
				if refused++; d.told() && !wrong {
					t.Errorf("seed %d, %v, want %d: %v", seed, d, want, err)
				}
				if !strings.Contains(err.Error(), dir+"/x_") {
					t.Errorf("seed %d: the error names no file: %v", seed, err)
				}
				continue
			}
			opened++
			own := s.Groups()
			if wrong || own.Images() != len(d.counts) || own.Items() != s.NumCaptions() ||
				s.Repeated() != (d.repeated && len(ofRow) > len(d.counts)) {
				t.Errorf("seed %d, %v, want %d: opened with %d images of %v captions, repeated %v", seed, d, want,
					own.Images(), own, s.Repeated())
				s.Close()
				continue
			}
			for c := range s.NumCaptions() {
				i := s.ImageOf(c)
				if at := s.ImageRow(c); s.HasIDs() != (d.ids != "") || d.ids == "" && s.ImageID(at) != fmt.Sprint(at) ||
					!strings.HasSuffix(s.Caption(c), fmt.Sprintf("of image %d", i)) ||
					ofRow[at] != i || ofRow[s.RowOf(i)] != i || d.ids != "" && d.ids != "rows" &&
					s.ImageID(at) != fmt.Sprintf("im%d.jpg", i) {
					t.Fatalf("seed %d, %v: caption %q, image %d, row %d of image %d, id %s", seed, d, s.Caption(c), i,
						at, ofRow[at], s.ImageID(at))
				}
			}
			s.Close()
		}
	}
	if opened < 500 || refused < 100 {
		t.Errorf("%d opened, %d refused", opened, refused)
	}
}

// In a large file windows are compared. They find the length of the runs, and that one row is missing; images that look
// alike change nothing while they are few.
func TestRunsOfALargeFile(t *testing.T) {
	const rows, width = 60000, 2048
	for _, k := range []int{1, 2, 5, 20, 40} {
		for _, twins := range []int{0, 40} { // one image in that many looks like the one before
			for _, gone := range []int{rows, rows / 3} {
				image := func(row int) int {
					if row >= gone {
						row++
					}
					i := row / k
					if twins > 0 && i%twins == 1 {
						i--
					}
					return i
				}
				m := matrix{rows, width, func(row, col int) float32 { return float32(1+image(row)) * float32(col+1) }}
				r := try.Get(runsOf(m, 16<<20))(t)
				if want := gone == rows || k == 1; (r.length == k && r.clear()) != want {
					t.Errorf("k %d, twins %d, row %d gone: %+v", k, twins, gone, r)
				}
				if compared := r.equal + r.differ; compared < 1000 || compared > 3000 {
					t.Errorf("%d neighbours compared", compared)
				}
			}
		}
	}
}

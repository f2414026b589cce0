package data

import (
	"bytes"
	"cmp"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"vsetrain/internal/compute/vec"
	"vsetrain/internal/files/regular"
)

// ScanStats describes the elements of a floating-point array.
type ScanStats struct {
	Rows      int     `json:"rows"` // examined
	Min       float32 `json:"min"`  // of the finite elements
	Max       float32 `json:"max"`
	ZeroShare float64 `json:"zero_share"`
	BadRows   int     `json:"bad_rows"` // rows with NaN or infinity
	FirstBad  []int   `json:"first_bad,omitempty"`
	ZeroRows  int     `json:"zero_rows"` // rows that are all zero
	FirstZero []int   `json:"first_zero,omitempty"`
	// PaddedRows is the number of rows of features whose last regions are zeros. If {split}_lengths.npy counts the
	// regions, it is the number of rows with values after the counted regions.
	PaddedRows  int   `json:"padded_rows,omitempty"`
	FirstPadded []int `json:"first_padded,omitempty"`
}

// look is what scan reads: rows, and for features the number of regions of a row and how many of them are counted.
type look struct {
	source  RowSource
	regions int     // 0 where rows are not features
	counts  []int32 // nil where all regions are
}

const firstRows = 5 // rows named in a report

// scan reads the rows, or about sample of them, in parallel.
func (l look) scan(sample int, progress func(done, total int)) (*ScanStats, error) {
	n, step := l.source.Rows(), 1
	if sample > 0 && sample < n {
		step = (n + sample - 1) / sample
	}
	total := (n + step - 1) / step
	f := &findings{ScanStats: ScanStats{Rows: total, Min: float32(math.Inf(1)), Max: float32(math.Inf(-1))}}
	var errs [2]error // of as many goroutines
	var next atomic.Int64
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			row := make([]float32, l.source.RowLen())
			for i := int(next.Add(1) - 1); i < total && errs[w] == nil; i = int(next.Add(1) - 1) {
				if errs[w] = l.source.ReadRow(row, i*step); errs[w] == nil {
					f.add(l, row, i*step)
				}
				if w == 0 && i%64 == 0 {
					progress(i, total)
				}
			}
		})
	}
	wg.Wait()
	if err := cmp.Or(errs[:]...); err != nil {
		return nil, err
	}
	progress(total, total)
	return f.finish(l.source.RowLen()), nil
}

// findings are what the goroutines of a scan found so far.
type findings struct {
	mu sync.Mutex
	ScanStats
	zeros  int
	padded zeroRegions // where regions are counted, rows with values after them
}

// add takes a row. NaN is neither below nor above anything.
func (f *findings) add(l look, row []float32, number int) {
	zeros, lo, hi := 0, float32(math.Inf(1)), float32(math.Inf(-1))
	for _, v := range row {
		if v == 0 {
			zeros++
		}
		if v < lo && v >= -math.MaxFloat32 {
			lo = v
		}
		if v > hi && v <= math.MaxFloat32 {
			hi = v
		}
	}
	bad := vec.NotFinite(row) >= 0
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Min, f.Max = min(f.Min, lo), max(f.Max, hi)
	if f.zeros += zeros; bad {
		f.FirstBad = append(f.FirstBad, number)
	}
	switch {
	case zeros == len(row):
		f.FirstZero = append(f.FirstZero, number)
	case l.regions > 1 && l.counts == nil:
		f.padded.add(row, len(row)/l.regions, number)
	case l.regions > 1 && regionsIn(row, len(row)/l.regions) > int(l.counts[number]):
		f.padded.last = append(f.padded.last, number)
	}
}

func (f *findings) finish(rowLen int) *ScanStats {
	if f.padded.padding() {
		f.FirstPadded = f.padded.last
	}
	if f.Min > f.Max { // nothing finite; JSON has no infinity
		f.Min, f.Max = 0, 0
	}
	if f.Rows > 0 {
		f.ZeroShare = float64(f.zeros) / float64(f.Rows*rowLen)
	}
	for rows, n := range map[*[]int]*int{&f.FirstBad: &f.BadRows, &f.FirstZero: &f.ZeroRows,
		&f.FirstPadded: &f.PaddedRows} {
		slices.Sort(*rows)
		*n, *rows = len(*rows), (*rows)[:min(len(*rows), firstRows)]
	}
	return &f.ScanStats
}

// countLines counts the lines of a text file of any size.
func countLines(path string) (int, error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buf := make([]byte, 1<<18)
	n, last := 0, byte('\n')
	for {
		k, err := f.Read(buf)
		if k > 0 {
			n += bytes.Count(buf[:k], []byte{'\n'})
			last = buf[k-1]
		}
		switch {
		case err == io.EOF && last != '\n':
			return n + 1, nil
		case err == io.EOF:
			return n, nil
		case err != nil:
			return n, err
		}
	}
}

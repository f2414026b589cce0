package data

import (
	"bytes"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"vsetrain/internal/compute/vec"
	"vsetrain/internal/files/regular"
)

// ScanStats says what the elements of a floating-point array are like.
type ScanStats struct {
	Rows      int     `json:"rows"` // examined
	Min       float32 `json:"min"`  // of the finite elements
	Max       float32 `json:"max"`
	ZeroShare float64 `json:"zero_share"`
	BadRows   int     `json:"bad_rows"` // rows with NaN or infinity
	FirstBad  []int   `json:"first_bad,omitempty"`
	ZeroRows  int     `json:"zero_rows"` // rows that are all zero
	FirstZero []int   `json:"first_zero,omitempty"`
	// PaddedRows are rows of features whose last regions are zeros; where {split}_lengths.npy counts the regions, those
	// with values after them.
	PaddedRows  int   `json:"padded_rows,omitempty"`
	FirstPadded []int `json:"first_padded,omitempty"`
}

// look says what scan reads: rows, and of features how many regions a row has and which of them are counted.
type look struct {
	source  RowSource
	regions int     // 0 where rows are not features
	counts  []int32 // nil where all regions are
}

const firstRows = 5 // rows named in a report

// scan reads the rows, or about sample of them, in parallel.
func (l look) scan(sample, workers int, progress func(done, total int)) (*ScanStats, error) {
	n := l.source.Rows()
	step := 1
	if sample > 0 && sample < n {
		step = (n + sample - 1) / sample
	}
	total := (n + step - 1) / step
	if workers < 1 {
		workers = 2
	}
	parts, errs := make([]part, workers), make([]error, workers)
	var next atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			parts[w], errs[w] = l.rows(step, total, &next, func(done int) {
				if w == 0 {
					progress(done, total)
				}
			})
		}()
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	progress(total, total)
	return merge(parts, total, l.source.RowLen()), nil
}

// part is what one goroutine found.
type part struct {
	min, max  float32
	zeros     int
	bad, zero []int
	padded    zeroRegions // where regions are counted, rows with values after them
}

func (l look) rows(step, total int, next *atomic.Int64, progress func(done int)) (part, error) {
	p := part{min: float32(math.Inf(1)), max: float32(math.Inf(-1))}
	row := make([]float32, l.source.RowLen())
	for {
		i := int(next.Add(1) - 1)
		if i >= total {
			return p, nil
		}
		if err := l.source.ReadRow(row, i*step); err != nil {
			return p, err
		}
		if vec.NotFinite(row) >= 0 {
			p.bad = append(p.bad, i*step)
		}
		zeros := p.add(row)
		if p.zeros += zeros; zeros == len(row) {
			p.zero = append(p.zero, i*step)
		} else if l.regions > 1 {
			if dim := len(row) / l.regions; l.counts == nil {
				p.padded.add(row, dim, i*step)
			} else if regionsIn(row, dim) > int(l.counts[i*step]) {
				p.padded.last = append(p.padded.last, i*step)
			}
		}
		if i%64 == 0 {
			progress(i)
		}
	}
}

// add takes a row and returns its number of zeros. NaN is neither below nor above anything.
func (p *part) add(row []float32) (zeros int) {
	lo, hi := p.min, p.max
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
	p.min, p.max = lo, hi
	return zeros
}

func merge(parts []part, rows, rowLen int) *ScanStats {
	s := &ScanStats{Rows: rows, Min: float32(math.Inf(1)), Max: float32(math.Inf(-1))}
	zeros := 0
	var padded zeroRegions
	for _, p := range parts {
		s.Min, s.Max = min(s.Min, p.min), max(s.Max, p.max)
		zeros += p.zeros
		s.BadRows += len(p.bad)
		s.ZeroRows += len(p.zero)
		s.FirstBad = append(s.FirstBad, p.bad...)
		s.FirstZero = append(s.FirstZero, p.zero...)
		padded.last, padded.between = append(padded.last, p.padded.last...), padded.between+p.padded.between
	}
	if padded.padding() {
		s.PaddedRows, s.FirstPadded = len(padded.last), padded.last
	}
	if s.Min > s.Max { // nothing finite; JSON has no infinity
		s.Min, s.Max = 0, 0
	}
	if rows > 0 {
		s.ZeroShare = float64(zeros) / float64(rows*rowLen)
	}
	for _, rows := range []*[]int{&s.FirstBad, &s.FirstZero, &s.FirstPadded} {
		slices.Sort(*rows)
		*rows = (*rows)[:min(len(*rows), firstRows)]
	}
	return s
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
		if err == io.EOF {
			if last != '\n' {
				n++
			}
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

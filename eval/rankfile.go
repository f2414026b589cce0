package eval

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"

	"vsetrain/data"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/pickle"
	"vsetrain/internal/files/torchfile"
)

// Ranking is the outcome for each query of a split, in file order. Ranks count from 0, as in Ranks.
type Ranking struct {
	I2T, I2TTop []int // [N] rank of the best own caption of an image, and the caption that ranks first
	T2I, T2ITop []int // [M] rank of the image of a caption, and the image that ranks first
}

// Rank ranks every query of the part of a split that a protocol measures. With FiveFolds a query meets the candidates
// of its own fold alone; Auto stands for the first protocol that Evaluate reports. All numbers are the numbers of the
// whole split. pool may be nil.
func Rank(pool *par.Pool, s Scores, own data.Groups, protocol Protocol) (Ranking, error) {
	return rankIn(usualTiles(), pool, s, own, protocol)
}

// rankIn is Rank in tiles of a given size.
func rankIn(t tileSize, pool *par.Pool, s Scores, own data.Groups, protocol Protocol) (Ranking, error) {
	var all Ranking
	protocol, err := ParseProtocol(string(protocol))
	if err != nil {
		return all, err
	}
	if err := fit(s, own); err != nil {
		return all, err
	}
	n := own.Images()
	protocol = protocol.Resolve(own)[0]
	if err := protocol.Fits(n); err != nil {
		return all, err
	}
	folds, size := protocol.layout(n)
	for f := range folds {
		part := foldOf(s, own, f*size, size)
		i2t, t2i, err := ranksIn(t, pool, part, own.Part(f*size, (f+1)*size))
		if err != nil {
			return all, err
		}
		captions, images := firsts(t, pool, part)
		for i := range captions {
			captions[i] += part.c0
		}
		for c := range images {
			images[c] += part.i0
		}
		all.I2T, all.I2TTop = append(all.I2T, i2t...), append(all.I2TTop, captions...)
		all.T2I, all.T2ITop = append(all.T2I, t2i...), append(all.T2ITop, images...)
	}
	return all, nil
}

// firsts returns the caption that ranks first for every image [N], and the image that ranks first for every caption
// [M]: the highest score, among equal ones the larger number.
func firsts(size tileSize, pool *par.Pool, s Scores) (captions, images []int) {
	n, m := s.Dims()
	captions, images = make([]int, n), make([]int, m)
	rows, columns := make([]float64, n), make([]float64, m)
	for _, best := range [][]float64{rows, columns} {
		for i := range best {
			best[i] = math.Inf(-1)
		}
	}
	var mu sync.Mutex // guards captions and rows; a column belongs to one worker
	eachRow(size, pool, s, func(i, c0 int, row []float64) {
		first := 0
		for c, v := range row {
			if v >= row[first] {
				first = c
			}
			if v >= columns[c0+c] {
				columns[c0+c], images[c0+c] = v, i
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if v := row[first]; v > rows[i] || v == rows[i] && c0+first > captions[i] {
			rows[i], captions[i] = v, c0+first
		}
	})
	return captions, images
}

// CheckRanksPath returns an error for a file name that SaveRanks has no format for.
func CheckRanksPath(path string) error {
	if !strings.HasSuffix(path, ".csv") && !isTorchName(path) {
		return fmt.Errorf("%s: ranks are written to a file that ends in .csv, .pth or .pth.tar", path)
	}
	return nil
}

func isTorchName(path string) bool {
	return strings.HasSuffix(path, ".pth") || strings.HasSuffix(path, ".pth.tar")
}

// SaveRanks writes a ranking. A .csv has the columns
//
//	direction (i2t or t2i), query, rank, top1
//
// where query and top1 number images and captions in file order, from 0. A .pth or .pth.tar is what the evaluation of
// fartashf/vsepp and its descendants saves as ranks.pth.tar: {"rt": (ranks, top1), "rti": (ranks, top1)} of images and
// of captions, float64 tensors here, as its NumPy arrays are.
func SaveRanks(path string, r Ranking) error {
	if err := CheckRanksPath(path); err != nil {
		return fmt.Errorf("save ranks: %w", err)
	}
	if isTorchName(path) {
		rt, err := rankTensors(r.I2T, r.I2TTop)
		if err != nil {
			return fmt.Errorf("save ranks: %w", err)
		}
		rti, err := rankTensors(r.T2I, r.T2ITop)
		if err != nil {
			return fmt.Errorf("save ranks: %w", err)
		}
		return torchfile.Save(path, map[string]any{"rt": rt, "rti": rti})
	}
	return atomicfile.WriteFile(path, func(w io.Writer) error { return WriteRanksCSV(w, r) })
}

// WriteRanksCSV writes a ranking as the .csv of SaveRanks.
func WriteRanksCSV(w io.Writer, r Ranking) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "direction,query,rank,top1")
	for i, rank := range r.I2T {
		fmt.Fprintf(b, "i2t,%d,%d,%d\n", i, rank, r.I2TTop[i])
	}
	for c, rank := range r.T2I {
		fmt.Fprintf(b, "t2i,%d,%d,%d\n", c, rank, r.T2ITop[c])
	}
	return b.Flush()
}

func rankTensors(ranks, top1 []int) (pickle.Tuple, error) {
	var both pickle.Tuple
	for _, list := range [][]int{ranks, top1} {
		var b []byte
		for _, v := range list {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(v)))
		}
		t, err := torchfile.NewTensor("F64", []int{len(list)}, b)
		if err != nil {
			return nil, err
		}
		both = append(both, t)
	}
	return both, nil
}

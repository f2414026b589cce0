package eval

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"

	"vsetrain/data"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/pickle"
	"vsetrain/internal/files/torchfile"
)

// Ranking holds the rank and the first answer of each query of a split, in file order. Ranks count from 0, as in Ranks.
type Ranking struct {
	I2T, I2TTop []int // [N] rank of the best own caption of an image, and the caption that ranks first
	T2I, T2ITop []int // [M] rank of the image of a caption, and the image that ranks first
}

// Rank ranks every query of the part of a split that a protocol measures. With FiveFolds, the candidates of a query are
// the items of its fold. Auto means the first protocol that Evaluate reports. All numbers are numbers in the whole
// split. pool may be nil.
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
		i2t, t2i, _, err := ranksAndTies(t, pool, part, own.Part(f*size, (f+1)*size))
		if err != nil {
			return all, err
		}
		all.I2T, all.T2I = append(all.I2T, i2t...), append(all.T2I, t2i...)
		images, captions := tops(t, pool, part, 1, nil)
		for _, l := range images {
			all.I2TTop = append(all.I2TTop, part.c0+int(l.Items[0]))
		}
		for _, l := range captions {
			all.T2ITop = append(all.T2ITop, part.i0+int(l.Items[0]))
		}
	}
	return all, nil
}

// CheckRanksPath returns an error if SaveRanks has no format for a file name.
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
// where query and top1 number images and captions in file order, from 0. A .pth or .pth.tar has the contents of the
// ranks.pth.tar that the evaluation of fartashf/vsepp and its descendants saves: {"rt": (ranks, top1), "rti": (ranks,
// top1)} for images and for captions, as float64 tensors instead of float64 NumPy arrays.
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

// WriteRanksCSV writes a ranking in the .csv format of SaveRanks.
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

package convert

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/philox"
	"vsetrain/internal/files/half"
	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

// valueTypes are the types of base64 features.
var valueTypes = []struct {
	flag string
	size int
}{{"f16", 2}, {"f32", 4}, {"f64", 8}}

// encode64 returns base64 of values of size bytes each, and the values that it holds, as float32.
func encode64(v []float64, size int) (text string, held []float32) {
	b := make([]byte, 0, size*len(v))
	for _, x := range v {
		switch size {
		case 2:
			one := make([]byte, 2)
			half.Encode(one, []float32{float32(x)})
			h := half.Float32(binary.LittleEndian.Uint16(one))
			b, held = append(b, one...), append(held, h)
		case 4:
			b, held = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x))), append(held, float32(x))
		case 8:
			b, held = binary.LittleEndian.AppendUint64(b, math.Float64bits(x)), append(held, float32(x))
		}
	}
	return base64.StdEncoding.EncodeToString(b), held
}

// drawn is a kind of features: the value of channel c of d. Features of a network are told by their values in any file
// of usual size; of the others it is only asked that they are not mistaken.
var drawn = []struct {
	name    string
	network bool
	at      func(s *philox.Stream, c, d int) float64
}{
	{"normal", true, func(s *philox.Stream, c, d int) float64 { return s.Norm() }},
	{"relu", true, func(s *philox.Stream, c, d int) float64 { return max(0, s.Norm()) }},
	{"large", true, func(s *philox.Stream, c, d int) float64 { return 40 * max(0, s.Norm()) }},
	{"small", true, func(s *philox.Stream, c, d int) float64 { return 0.02 * s.Norm() }},
	{"uniform", true, func(s *philox.Stream, c, d int) float64 { return s.Float64() }},
	{"mostly zeros", true, func(s *philox.Stream, c, d int) float64 { return -math.Log(s.Float64()) * zero(s, 0.8) }},
	{"exponential", true, func(s *philox.Stream, c, d int) float64 { return -math.Log(1 - s.Float64()) }},
	{"with boxes behind", true, func(s *philox.Stream, c, d int) float64 { // VinVL: the last six from 0 to 1
		if c >= d-6 {
			return s.Float64()
		}
		return 3 * max(0, s.Norm())
	}},
	{"near one", false, func(s *philox.Stream, c, d int) float64 { return 1 + s.Float64() }},
	{"whole numbers", false, func(s *philox.Stream, c, d int) float64 { return float64(s.IntN(9)) }},
	{"codes", false, func(s *philox.Stream, c, d int) float64 { return float64(s.IntN(256)) }},
	{"binary", false, func(s *philox.Stream, c, d int) float64 { return float64(s.IntN(2)) }},
	{"tenths", false, func(s *philox.Stream, c, d int) float64 { return math.Round(10*s.Norm()) / 10 }},
	{"hundredths", false, func(s *philox.Stream, c, d int) float64 { return math.Round(100*s.Float64()) / 100 }},
	{"constant", false, func(s *philox.Stream, c, d int) float64 { return 0.1 }},
	{"zeros", false, func(s *philox.Stream, c, d int) float64 { return 0 }},
	{"short mantissas", false, func(s *philox.Stream, c, d int) float64 { // bfloat16
		return float64(math.Float32frombits(math.Float32bits(float32(s.Norm())) &^ 0xffff))
	}},
	{"halves stored long", false, func(s *philox.Stream, c, d int) float64 {
		_, v := encode64([]float64{s.Norm()}, 2)
		return float64(v[0])
	}},
	{"float32 stored long", false, func(s *philox.Stream, c, d int) float64 { return s.Norm() }},
	{"every other channel dead", false, func(s *philox.Stream, c, d int) float64 { return float64(c%2) * s.Float64() }},
	{"every other channel large", false, func(s *philox.Stream, c, d int) float64 {
		return []float64{0.1, 50}[c%2] * s.Float64()
	}},
	{"columns of two kinds", false, func(s *philox.Stream, c, d int) float64 {
		return []float64{1 + s.Float64(), 0.01 + 0.09*s.Float64()}[c%2]
	}},
	{"columns of three kinds", false, func(s *philox.Stream, c, d int) float64 {
		return []float64{s.Float64(), float64(s.IntN(5)), 600 * s.Float64()}[c%3]
	}},
	{"columns, one signed", false, func(s *philox.Stream, c, d int) float64 {
		return []float64{s.Norm(), 50 + 10*s.Float64()}[c%2]
	}},
	{"small last bits", false, func(s *philox.Stream, c, d int) float64 {
		return float64(math.Float32frombits(math.Float32bits(float32(s.Norm()))&^0xffff | uint32(s.IntN(512))))
	}},
	{"wide range", false, func(s *philox.Stream, c, d int) float64 { return math.Exp(min(4*s.Norm()-4, 11)) }},
}

func zero(s *philox.Stream, share float64) float64 {
	if s.Float64() < share {
		return 0
	}
	return 1
}

// Few float16 numbers of two columns, one of which has any magnitude, are not taken for float32.
func TestFewWordsAreNotMistaken(t *testing.T) {
	for seed := range 4000 {
		s := philox.NewKey(uint64(seed), "few words").Stream(0)
		var w wordStats
		for range 20 + s.IntN(20) {
			row := make([]byte, 4)
			half.Encode(row, []float32{float32(math.Exp(20*s.Float64() - 9.5)), float32(1 + s.Float64())})
			w.add(row)
		}
		if size := w.size(4); size > 2 {
			t.Fatalf("seed %d: %d bytes a value", seed, size)
		}
	}
}

// Base64 features are read in the type that they have, or refused with the flag that says it; they are never read in
// another. Features of networks need no flag, and with --dim or --source-dtype nothing does.
func TestTypeOfTheSource(t *testing.T) {
	dir := try.MemoryDir(t)
	taken := map[string]int{}
	for seed := range 8 {
		for _, kind := range drawn {
			for _, typ := range valueTypes {
				s := philox.NewKey(uint64(seed), "type/"+kind.name+typ.flag).Stream(0)
				images, d := 2+s.IntN(5), []int{2, 3, 4, 6, 8, 13, 16, 40, 256, 262}[s.IntN(10)]
				var lines strings.Builder
				var want []float32
				for i := range images {
					regions := 1 + s.IntN(8)
					v := make([]float64, regions*d)
					for j := range v {
						v[j] = kind.at(s, j%d, d)
					}
					text, held := encode64(v, typ.size)
					want = append(want, held[:d]...) // --fit cuts to the first region
					box, _ := encode64(make([]float64, 4*regions), []int{2, 4, 8}[seed%3])
					fmt.Fprintf(&lines, "%d\t640\t480\t%d\t%s\t%s\n", i, regions, box, text)
				}
				src := write(t, dir, "a.tsv", lines.String())
				values := images * d
				for _, by := range []string{"values", "dim", "flag", "both"}[:4-3*min(1, seed%4)] {
					name := fmt.Sprintf("%s %s, %d x %d, by %s", kind.name, typ.flag, images, d, by)
					o := to(filepath.Join(dir, "out"))
					o.Regions, o.Fit, o.Force = 1, true, true
					if by == "dim" || by == "both" {
						o.Dim = d
					}
					if by == "flag" || by == "both" {
						o.SourceType = typ.flag
					}
					_, err := o.from(".tsv", src)
					switch {
					case err != nil && by == "values" && strings.Contains(err.Error(), "--source-dtype f16"):
						if kind.network && values >= 1000 && d >= 16 {
							t.Errorf("%s: not told by %d values: %v", name, values, err)
						}
						continue
					case err != nil:
						t.Errorf("%s: %v", name, err)
						continue
					}
					f := try.Get(npy.Open(filepath.Join(o.Out, "x_ims.npy")))(t)
					got := make([]float32, images*f.RowLen())
					for i := range images {
						try.Do(t, f.ReadRow(got[i*f.RowLen():(i+1)*f.RowLen()], i))
					}
					if f.RowLen() != d || !slices.Equal(got, want) {
						t.Errorf("%s: shape %v of other values", name, f.Shape)
					}
					f.Close()
					if by == "values" {
						taken[kind.name]++
					}
				}
			}
		}
	}
	t.Logf("told by their values: %v", taken)
}

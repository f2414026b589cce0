package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
)

// Scaling, mixing and means of the nodes of pairs, and the word graph.

func testScaleBlocks(h *harness) {
	for _, s := range [][4]int{{1, 1, 1, 1}, {2, 3, 4, 5}, {3, 1, 7, 17}, {5, 4, 40, 4}} {
		what := fmt.Sprintf("ScaleBlocks %v", s)
		size := s[0] * s[1] * s[2] * s[3]
		x, f := h.normal(size, 1), h.normal(s[0]*s[2], 1)
		dy := h.gradient(size, func(i int) int { return i / (s[2] * s[3]) })
		factor := func(i int) float64 { return f[i/(s[1]*s[2]*s[3])*s[2]+i/s[3]%s[2]] }
		y, dx := make([]float64, size), make([]float64, size)
		for i, v := range x {
			y[i], dx[i] = v*factor(i), dy[i]*factor(i)
		}
		a := device.ScaleBlocks{A: s[0], B: s[1], N: s[2], H: s[3], X: h.in(x), Factors: h.in(f)}
		h.outputs(&a)
		h.run(what, func() { device.Do(h.d, a) })
		h.equal(what, a.Y, y, h.tol.exact)
		h.steady(what, func() { device.Do(h.d, a) })
		a.Y, a.DY, a.DX, a.DFactors = device.View{}, h.in(dy), h.out(size), h.out(len(f))
		h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
		h.equal(what+": DX", a.DX, dx, h.tol.exact)
		h.equalDifferences(what+": DFactors", f, a.DFactors, usual, func() (s float64) {
			for i, v := range x {
				s += v * factor(i) * dy[i]
			}
			return s
		})
		h.steady(what+" gradient", func() { device.DoGrad(h.d, a) })
		h.release()
	}
}

func testMixNodes(h *harness) {
	for n, s := range []pairSizes{{1, 0, []int32{1}}, {2, 0, []int32{3, 3}}, {3, 0, []int32{4, 1, 6}},
		{2, 0, []int32{36, 36, 36}}} {
		for _, perImage := range []bool{false, true} {
			if perImage && n == 2 {
				continue
			}
			k, width, t := 1+n%3, 3, s.words()
			what := fmt.Sprintf("MixNodes %v per image %v", s, perImage)
			at, size := []int{}, 0
			for _, l := range s.lengths {
				at = append(at, size)
				size += int(l*l) * k
			}
			if perImage {
				size = s.b * int(s.lengths[0]*s.lengths[0]) * k
			}
			x, w := h.normal(s.b*t*k*width, 1), h.normal(size, 1)
			y := make([]float64, len(x))
			forward := func() {
				clear(y)
				for i := range s.b {
					first := 0
					for c, l32 := range s.lengths {
						l, base := int(l32), at[c]
						if perImage {
							base = i * l * l * k
						}
						for e := range l * l * k * width {
							j, m, q, col := e/width/k/l, e/width/k%l, e/width%k, e%width
							y[((i*t+first+j)*k+q)*width+col] += w[base+(j*l+m)*k+q] * x[((i*t+first+m)*k+q)*width+col]
						}
						first += l
					}
				}
			}
			forward()
			a := device.MixNodes{B: s.b, K: k, H: width, PerImage: perImage, Lengths: h.inInts(s.lengths), X: h.in(x),
				Weights: h.in(w)}
			h.outputs(&a)
			h.run(what, func() { device.Do(h.d, a) })
			h.equal(what, a.Y, y, h.tol.product)
			h.steady(what, func() { device.Do(h.d, a) })
			dy := h.normal(len(x), 1)
			a.Y, a.DY = device.View{}, h.in(dy)
			h.gradOutputs(&a)
			h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
			loss := func() (s float64) {
				forward()
				for i, v := range y {
					s += v * dy[i]
				}
				return s
			}
			h.equalDifferences(what+": DX", x, a.DX, usual, loss)
			h.equalDifferences(what+": DWeights", w, a.DWeights, usual, loss)
			h.steady(what+" gradient", func() { device.DoGrad(h.d, a) })
			h.release()
		}
	}
}

func testMeanNodes(h *harness) {
	for _, s := range []pairSizes{{1, 0, []int32{1}}, {2, 0, []int32{3, 3}}, {3, 0, []int32{4, 1, 6}}} {
		for _, width := range []int{1, 5, 33} {
			what := fmt.Sprintf("MeanNodes %v of %d", s, width)
			t, c := s.words(), len(s.lengths)
			x, dy := h.normal(s.b*t*width, 1), h.normal(s.b*c*width, 1)
			y, dx := make([]float64, len(dy)), make([]float64, len(x))
			for i := range s.b {
				first := 0
				for n, l := range s.lengths {
					for e := range int(l) * width {
						from, to := (i*t+first)*width+e, (i*c+n)*width+e%width
						y[to] += x[from] / float64(l)
						dx[from] = dy[to] / float64(l)
					}
					first += int(l)
				}
			}
			a := device.MeanNodes{B: s.b, H: width, Lengths: h.inInts(s.lengths), X: h.in(x)}
			h.outputs(&a)
			h.run(what, func() { device.Do(h.d, a) })
			h.equal(what, a.Y, y, h.tol.product)
			h.steady(what, func() { device.Do(h.d, a) })
			a.X, a.Y, a.DY = device.View{}, device.View{}, h.in(dy)
			h.gradOutputs(&a)
			h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
			h.equal(what+": DX", a.DX, dx, h.tol.exact)
			h.steady(what+" gradient", func() { device.DoGrad(h.d, a) })
			h.release()
		}
	}
}

func testWordGraph(h *harness) {
	lengths := []int32{4, 1, 3}
	edges, start := []int32{0, 2, 2, 3, 3, 2, 1, 0}, []int32{0, 3, 3, 4}
	joined := [][]string{{"1010", "0100", "1011", "0011"}, {"1"}, {"110", "110", "001"}}
	const e, lambda = 5, 1.5
	for _, sparse := range []bool{false, true} {
		what := fmt.Sprintf("WordGraph sparse %v", sparse)
		words := h.normal(8*e, 1)
		weights := func() (out []float64) {
			first := 0
			for c, l := range lengths {
				for j := range int(l) {
					row, sum := make([]float64, l), 0.0
					for m := range row {
						if sparse && joined[c][j][m] == '0' {
							continue
						}
						for x := range e {
							row[m] += lambda * words[(first+j)*e+x] * words[(first+m)*e+x]
						}
						row[m] = math.Exp(row[m])
						sum += row[m]
					}
					for m := range row {
						row[m] /= sum
					}
					out = append(out, row...)
				}
				first += int(l)
			}
			return out
		}
		want := weights()
		a := device.WordGraph{E: e, Lambda: lambda, Lengths: h.inInts(lengths), Words: h.in(words), Sparse: sparse}
		if sparse {
			a.Edges, a.EdgeStart = h.inInts(edges), h.inInts(start)
		}
		h.outputs(&a)
		h.run(what, func() { device.Do(h.d, a) })
		h.equal(what, a.Weights, want, 4*h.tol.product)
		h.steady(what, func() { device.Do(h.d, a) })
		dw := h.normal(len(want), 1)
		a.Weights, a.DWeights = h.in(want), h.in(dw)
		h.gradOutputs(&a)
		h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
		h.equalDifferences(what+": DWords", words, a.DWords, usual, func() (s float64) {
			for i, v := range weights() {
				s += v * dw[i]
			}
			return s
		})
		h.steady(what+" gradient", func() { device.DoGrad(h.d, a) })
		h.release()
	}
}

package devicetest

import "vsetrain/internal/compute/device"

type goldenLoss struct {
	Scores          matrix
	ImageEmb        matrix `json:"image_emb"`
	CaptionEmb      matrix `json:"caption_emb"`
	Type            string `json:"loss_type"`
	Margin          float64
	Max             bool `json:"max_violation"`
	Similarity      string
	Alpha, Lam      float64
	CaptionIDs      []int32    `json:"caption_ids"`
	ImageIDs        []int32    `json:"image_ids"`
	Divisor         int32      `json:"caption_id_divisor"`
	SemanticVectors matrix     `json:"semantic_vectors"`
	Positive        [3]float64 `json:"pos_coeffs"`
	Negative        [3]float64 `json:"neg_coeffs"`
	Expected        struct {
		Loss        float64
		Row         *float64 `json:"loss_caption_retrieval"`
		Column      *float64 `json:"loss_image_retrieval"`
		CostS       matrix   `json:"cost_s"`
		CostIm      matrix   `json:"cost_im"`
		Grad        matrix   `json:"grad_scores"`
		HardCaption []int32  `json:"hard_caption_index_per_image"`
		HardImage   []int32  `json:"hard_image_index_per_caption"`
		Margins     matrix   `json:"margin_matrix"`
		Similarity  matrix   `json:"semantic_similarity"`
		Scores      matrix
		GradImage   matrix `json:"grad_image_emb"`
		GradCaption matrix `json:"grad_caption_emb"`
		Anchors     [][]any
	}
}

// lossKernels run the kernel of a case's type and compare what belongs to that type alone.
var lossKernels = map[string]func(g *goldenCase, c *goldenLoss, n int, scores device.View, out device.LossOut){
	"LSH": goldenHinge, "LMH": goldenHinge, "LSEH": goldenHinge, "LUWM": goldenUniversal,
}

// goldenLosses runs one case of losses.json, from embeddings or semantic vectors where it starts there. A loss without
// a kernel is composed of operations that other tests compare; package loss runs its cases, and those of a type that
// nobody knows fail there.
func goldenLosses(g *goldenCase) {
	var c goldenLoss
	g.decode(&c)
	kernel, ok := lossKernels[c.Type]
	if !ok && c.Type != "" {
		g.t.Skip("no kernel computes the loss " + c.Type)
	}
	var images, captions, scores device.View
	var n, dim int
	if c.ImageEmb.Data != nil {
		dim = c.ImageEmb.Cols
		n = len(c.ImageEmb.Data) / dim
		images, captions, scores = g.in(c.ImageEmb.Data), g.in(c.CaptionEmb.Data), g.out(n*n)
		if c.Type == "" {
			a := device.OrderScores{B: n, C: len(c.CaptionEmb.Data) / dim, D: dim, Images: images, Captions: captions}
			a.Scores = g.out(a.B * a.C)
			g.run("OrderScores", func() { device.Do(g.d, a) })
			g.output("order scores", a.Scores, c.Expected.Scores.Data)
			return
		}
		device.Do(g.d, device.Gemm{TransB: true, M: n, N: n, K: dim, Alpha: 1, A: images, B: captions, C: scores,
			Exact: true})
		g.output("scores", scores, c.Expected.Scores.Data)
	} else {
		n = c.Scores.Cols
		scores = g.in(c.Scores.Data)
	}
	out := g.lossOut(n, true)
	kernel(g, &c, n, scores, out)
	loss := g.read(out.Loss)
	g.output("loss", out.Loss.Slice(0, 1), []float64{c.Expected.Loss})
	g.output("sum of the parts", g.in([]float64{loss[1] + loss[2]}), []float64{c.Expected.Loss})
	if c.Expected.Row != nil {
		g.output("parts", out.Loss.Slice(1, 3), []float64{*c.Expected.Row, *c.Expected.Column})
	}
	g.gradient("gradient of the scores", out.Grad, c.Expected.Grad.Data)
	if images.Present() {
		di, dc := g.out(n*dim), g.out(n*dim)
		device.Do(g.d, device.Gemm{M: n, N: dim, K: n, Alpha: 1, A: out.Grad, B: captions, C: di, Exact: true})
		device.Do(g.d, device.Gemm{TransA: true, M: n, N: dim, K: n, Alpha: 1, A: out.Grad, B: images, C: dc,
			Exact: true})
		g.gradient("gradient of the images", di, c.Expected.GradImage.Data)
		g.gradient("gradient of the captions", dc, c.Expected.GradCaption.Data)
	}
}

func goldenUniversal(g *goldenCase, c *goldenLoss, n int, scores device.View, out device.LossOut) {
	a := device.UniversalWeighting{N: n, Scores: scores, Margin: c.Margin, Positive: c.Positive, Negative: c.Negative,
		LossOut: out}
	if a.Positive == [3]float64{} { // the published constants
		a.Positive, a.Negative = [3]float64{0.5, -0.7, 0.2}, [3]float64{0.03, -0.4, 0.9}
	}
	g.run(c.Type, func() { device.Do(g.d, a) })
	g.anchors(c, n, out)
}

func goldenHinge(g *goldenCase, c *goldenLoss, n int, scores device.View, out device.LossOut) {
	a := device.Hinge{N: n, Scores: scores, Margin: c.Margin, Max: c.Max, LossOut: out}
	if c.Type == "LSEH" {
		a.Margins = g.semanticMargins(c, n)
	}
	g.run(c.Type, func() { device.Do(g.d, a) })
	g.hinges(c, n, out)
}

// semanticMargins computes the margins of LSEH and compares them, and the similarities, with the case.
func (g *goldenCase) semanticMargins(c *goldenLoss, n int) device.View {
	captions := c.ImageIDs
	if c.Divisor > 0 {
		captions = nil
		for _, id := range c.CaptionIDs {
			captions = append(captions, id/c.Divisor)
		}
	}
	k := c.SemanticVectors.Cols
	v, gram := g.in(c.SemanticVectors.Data), g.out(n*n)
	device.Do(g.d, device.Gemm{TransB: true, M: n, N: n, K: k, Alpha: 1, A: v, B: v, C: gram, Exact: true})
	a := device.SemanticMargins{N: n, Gram: gram, Images: g.inInts(c.ImageIDs).View, Captions: g.inInts(captions).View,
		Alpha: c.Alpha, Lambda: c.Lam, Cosine: c.Similarity == "cosine", ZeroSameImage: true}
	if !a.Cosine && c.Similarity != "rowmax" {
		g.t.Fatalf("unknown similarity %q", c.Similarity)
	}
	g.outputs(&a)
	g.run("SemanticMargins", func() { device.Do(g.d, a) })
	if c.Expected.Margins.Data != nil {
		g.output("margins", a.Margins, c.Expected.Margins.Data)
	}
	if want := c.Expected.Similarity.Data; want != nil {
		s := a
		s.Alpha, s.Lambda, s.ZeroSameImage, s.Margins = 0, 1, false, device.View{}
		g.outputs(&s)
		g.run("SemanticMargins", func() { device.Do(g.d, s) })
		for i := range n {
			want[i*n+i] = 0
		}
		g.output("similarities", s.Margins, want)
	}
	return a.Margins
}

// hinges compares the bookkeeping with the cost matrices.
func (g *goldenCase) hinges(c *goldenLoss, n int, out device.LossOut) {
	rows, columns := make([]float64, n), make([]float64, n)
	for i := range n {
		for j := range n {
			rows[i] = max(rows[i], c.Expected.CostS.Data[i*n+j])
			columns[j] = max(columns[j], c.Expected.CostIm.Data[i*n+j])
		}
	}
	g.output("cost of the hardest caption", out.CostCaption, rows)
	g.output("cost of the hardest image", out.CostImage, columns)
	if c.Expected.HardCaption != nil {
		g.equalInts("hardest caption", out.HardCaption, c.Expected.HardCaption)
		g.equalInts("hardest image", out.HardImage, c.Expected.HardImage)
	}
}

// anchors compares index and negative term of every anchor of LUWM: ["row"|"col", anchor, index, positive, negative],
// or a reason for skipping in place of the index.
func (g *goldenCase) anchors(c *goldenLoss, n int, out device.LossOut) {
	index := map[string][]int32{"row": make([]int32, n), "col": make([]int32, n)}
	cost := map[string][]float64{"row": make([]float64, n), "col": make([]float64, n)}
	for _, a := range c.Expected.Anchors {
		if len(a) < 5 {
			continue
		}
		side, i := a[0].(string), int(a[1].(float64))
		index[side][i], cost[side][i] = int32(a[2].(float64)), a[4].(float64)
	}
	g.equalInts("hardest caption", out.HardCaption, index["row"])
	g.equalInts("hardest image", out.HardImage, index["col"])
	g.output("negative term of the rows", out.CostCaption, cost["row"])
	g.output("negative term of the columns", out.CostImage, cost["col"])
}

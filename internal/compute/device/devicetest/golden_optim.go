package devicetest

import (
	"math"
	"strings"

	"vsetrain/internal/compute/device"
)

// goldenOptim runs the cases of optim.json that are arithmetic of kernels; learning-rate schedules belong to training.
func goldenOptim(g *goldenCase) {
	var c struct {
		Name    string
		LR      float64
		Betas   []float64
		Eps     float64
		Decay   float64 `json:"weight_decay"`
		AdamW   bool    `json:"decoupled"`
		Initial []float64
		Grads   [][]float64
		MaxNorm float64 `json:"max_norm"`
		Order   []int   `json:"parameter_list_order"`
	}
	switch {
	case strings.HasPrefix(g.caseName(), "schedule"):
		g.t.Skip("a schedule, no kernel")
	case strings.HasPrefix(g.caseName(), "clip"):
		g.decode(&c)
		g.clip(c.Grads, c.Order, c.MaxNorm)
		return
	}
	g.decode(&c)
	var expected struct {
		Expected struct {
			Params   [][]float64 `json:"params_after_each_step"`
			ExpAvg   []float64   `json:"exp_avg"`
			ExpAvgSq []float64   `json:"exp_avg_sq"`
			Step     int
		}
	}
	g.decode(&expected)
	want := expected.Expected
	if len(c.Betas) == 0 {
		c.Betas, c.Eps = []float64{0.9, 0.999}, 1e-8 // the defaults of torch.optim.Adam
	}
	if c.Eps == 0 {
		c.Eps = 1e-8
	}
	updates := max(1, want.Step/len(c.Grads)) // a parameter listed twice is updated twice a step
	n := len(c.Initial)
	a := device.Adam{P: g.inout(c.Initial), M: g.inout(make([]float64, n)), V: g.inout(make([]float64, n)),
		G: g.inout(make([]float64, n)), Hyper: g.inout(make([]float64, 3)), Beta1: c.Betas[0], Beta2: c.Betas[1],
		Eps: c.Eps, Legacy: strings.Contains(c.Name, "legacy")}
	decay := 1.0
	if c.AdamW {
		decay -= c.LR * c.Decay
	}
	t := 0
	for k, grad := range c.Grads {
		g.d.UploadDoubles(a.G, grad)
		for range updates {
			t++
			g.d.UploadDoubles(a.Hyper, []float64{c.LR / (1 - math.Pow(a.Beta1, float64(t))),
				1 / math.Sqrt(1-math.Pow(a.Beta2, float64(t))), decay})
			g.run(c.Name, func() { device.Do(g.d, a) })
		}
		g.output("parameters", a.P, want.Params[k])
	}
	if want.ExpAvg != nil {
		g.output("first moment", a.M, want.ExpAvg)
		g.output("second moment", a.V, want.ExpAvgSq)
	}
}

func (g *goldenCase) caseName() string {
	var c struct{ Name string }
	g.decode(&c)
	return c.Name
}

// clip composes gradient clipping from kernels; a parameter listed twice counts and is scaled twice.
func (g *goldenCase) clip(grads [][]float64, order []int, maxNorm float64) {
	var c struct {
		Expected struct {
			Norm  float64 `json:"total_norm"`
			Coef  float64 `json:"coefficient"`
			Grads [][]float64
		}
	}
	g.decode(&c)
	views := make([]device.View, len(grads))
	for i, x := range grads {
		views[i] = g.inout(x)
	}
	squares, norm, coef := g.inout([]float64{0}), g.out(1), g.out(1)
	for _, i := range order {
		device.Do(g.d, device.SumSquares{Sum: squares, X: views[i]})
	}
	device.Do(g.d, device.ClipCoefficient{Coefficient: coef, Norm: norm, SumSquares: squares, Most: maxNorm})
	for _, i := range order {
		device.Do(g.d, device.Scale{Dst: views[i], X: views[i], Factor: coef})
	}
	g.untouched("clip")
	g.output("norm", norm, []float64{c.Expected.Norm})
	g.output("coefficient", coef, []float64{c.Expected.Coef})
	for i, want := range c.Expected.Grads {
		g.gradient("gradient", views[i], want)
	}
}

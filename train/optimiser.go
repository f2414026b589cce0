package train

import (
	"fmt"
	"math"

	"vsetrain/internal/device"
	"vsetrain/internal/graph"
)

// optimiser is Adam or AdamW over the flat parameters of a network, with clipping of the global gradient norm
// (specification, training.md §1). All its state lies on the device in the layout of the parameters.
type optimiser struct {
	opt    OptimOptions
	dev    device.Device
	params *graph.Params
	m, v   device.View // moments, as long as the optimised parameters
	hyper  device.View // [3] of device.AdamArgs
	sumSq  device.View // [1] Σ g²
	norm   device.View // [1] ‖g‖₂
	coef   device.View // [1] clip coefficient
	coef2  device.View // [1] its square, for parameters that are listed twice
	steps  int64       // updates done

	host    [1]float64 // staging of transfers
	scalars [3]float64
	table   []float64
}

func newOptimiser(dev device.Device, p *graph.Params, o OptimOptions) (*optimiser, error) {
	opt := &optimiser{opt: o, dev: dev, params: p}
	if err := p.AllocGrads(); err != nil {
		return nil, err
	}
	n := p.OptimisedSize()
	for _, b := range []struct {
		view *device.View
		n    int
	}{{&opt.m, n}, {&opt.v, n}, {&opt.hyper, 3}, {&opt.sumSq, 1}, {&opt.norm, 1}, {&opt.coef, 1}, {&opt.coef2, 1}} {
		buf, err := dev.Alloc(device.Float, b.n)
		if err != nil {
			return nil, fmt.Errorf("allocate optimiser state for %d parameters: %w", n, err)
		}
		*b.view = device.Of(buf)
	}
	return opt, nil
}

// gradients says where a program leaves the gradients of the parameters it trains: ranges of the flat memory, and weights
// whose gradient is known as a product only.
type gradients struct {
	dense    []span
	twice    []span // of parameters that are listed twice (quirk Q3 of VSRN)
	factored []factor
}

// span is a range of the flat parameter memory whose learning rate is scaled.
type span struct {
	lo, hi int
	scale  float64
}

// factor is a weight with the gradient DYᵀ X.
type factor struct {
	span
	device.Factored
}

// gradNorm computes and returns the global L2 norm of the gradients, and the clip coefficient for update.
func (o *optimiser) gradNorm(g *gradients) float64 {
	o.computeNorm(g)
	o.dev.DownloadDoubles(o.host[:], o.norm)
	return o.host[0]
}

// computeNorm computes the norm and the clip coefficient on the device.
func (o *optimiser) computeNorm(g *gradients) {
	o.dev.Fill(o.sumSq, 0)
	for _, s := range g.dense {
		o.dev.SumSquares(o.sumSq, o.params.Grads().Slice(s.lo, s.hi))
	}
	for _, s := range g.twice {
		o.dev.SumSquares(o.sumSq, o.params.Grads().Slice(s.lo, s.hi))
		o.dev.SumSquares(o.sumSq, o.params.Grads().Slice(s.lo, s.hi))
	}
	for _, f := range g.factored {
		o.dev.SumSquaresFactored(o.sumSq, f.Factored)
	}
	clip := o.opt.Clip
	if clip == 0 {
		clip = math.MaxFloat32
	}
	o.dev.ClipCoefficient(o.coef, o.norm, o.sumSq, clip)
}

// update applies one Adam step at the given learning rate to every parameter that has a gradient. Parameters that are listed
// twice are clipped twice and get two steps with the same gradient, each counted (specification, models.md §3.4).
func (o *optimiser) update(g *gradients, lr float64) {
	o.steps++
	for _, s := range g.dense {
		o.uploadHyper(o.steps, lr*s.scale)
		o.dev.Adam(o.denseArgs(s))
	}
	for _, f := range g.factored {
		o.uploadHyper(o.steps, lr*f.scale)
		o.dev.AdamFactored(o.args(f.span), f.Factored)
	}
	if len(g.twice) == 0 {
		return
	}
	o.dev.Scale(o.coef2, o.coef, o.coef)
	for t := 2*o.steps - 1; t <= 2*o.steps; t++ {
		for _, s := range g.twice {
			o.uploadHyper(t, lr*s.scale)
			a := o.denseArgs(s)
			if a.Clip.Present() {
				a.Clip = o.coef2
			}
			o.dev.Adam(a)
		}
	}
}

// uploadHypers counts an update and sets the scalars of all its parts, in the order of updateFrom: one upload.
func (o *optimiser) uploadHypers(to *device.View, g *gradients, lr float64) error {
	o.steps++
	o.table = o.table[:0]
	add := func(t int64, lr float64) {
		h := o.hyperOf(t, lr)
		o.table = append(o.table, h[:]...)
	}
	for _, s := range g.dense {
		add(o.steps, lr*s.scale)
	}
	for _, f := range g.factored {
		add(o.steps, lr*f.scale)
	}
	for t := 2*o.steps - 1; t <= 2*o.steps; t++ {
		for _, s := range g.twice {
			add(t, lr*s.scale)
		}
	}
	if to.N < len(o.table) {
		b, err := o.dev.Alloc(device.Float, len(o.table))
		if err != nil {
			return fmt.Errorf("allocate scalars of the optimiser: %w", err)
		}
		*to = device.Of(b)
	}
	o.dev.UploadDoubles(*to, o.table)
	return nil
}

// updateFrom is update with scalars in device memory. A clip coefficient of NaN stops it, so it is always read; without clipping it is 1.
func (o *optimiser) updateFrom(hypers device.View, g *gradients) {
	at := 0
	with := func(a device.AdamArgs, clip device.View) device.AdamArgs {
		a.Hyper, a.Clip = hypers.Slice(at, at+3), clip
		at += 3
		return a
	}
	for _, s := range g.dense {
		o.dev.Adam(with(o.denseArgs(s), o.coef))
	}
	for _, f := range g.factored {
		o.dev.AdamFactored(with(o.args(f.span), o.coef), f.Factored)
	}
	if len(g.twice) == 0 {
		return
	}
	o.dev.Scale(o.coef2, o.coef, o.coef)
	for range 2 {
		for _, s := range g.twice {
			o.dev.Adam(with(o.denseArgs(s), o.coef2))
		}
	}
}

// uploadHyper sets the scalars of update t of a parameter, counted from 1.
func (o *optimiser) uploadHyper(t int64, lr float64) {
	o.scalars = o.hyperOf(t, lr)
	o.dev.UploadDoubles(o.hyper, o.scalars[:])
}

func (o *optimiser) hyperOf(t int64, lr float64) [3]float64 {
	b1, b2 := o.opt.Betas[0], o.opt.Betas[1]
	return [3]float64{lr / (1 - math.Pow(b1, float64(t))), 1 / math.Sqrt(1-math.Pow(b2, float64(t))), 1 - lr*o.opt.WeightDecay}
}

func (o *optimiser) denseArgs(s span) device.AdamArgs {
	a := o.args(s)
	a.G = o.params.Grads().Slice(s.lo, s.hi)
	return a
}

func (o *optimiser) args(s span) device.AdamArgs {
	a := device.AdamArgs{P: o.params.Values().Slice(s.lo, s.hi), M: o.m.Slice(s.lo, s.hi), V: o.v.Slice(s.lo, s.hi), Hyper: o.hyper,
		Beta1: o.opt.Betas[0], Beta2: o.opt.Betas[1], Eps: o.opt.Eps, Legacy: o.opt.LegacyEps}
	if o.opt.Clip > 0 {
		a.Clip = o.coef
	}
	return a
}

// LearningRate returns the learning rate of an epoch, counted from 0 (training.md §2).
func (o *OptimOptions) LearningRate(epoch int) float64 {
	if o.LRUpdate == 0 {
		return o.LR
	}
	decays := epoch / o.LRUpdate
	if o.Schedule == Once {
		decays = 0
		if epoch >= o.LRUpdate {
			decays++
		}
		if o.LRUpdate2 > 0 && epoch >= o.LRUpdate2 {
			decays++
		}
	}
	return o.LR * math.Pow(o.Decay, float64(decays))
}

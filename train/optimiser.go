package train

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

// optimiser is Adam or AdamW (Kingma, Ba: "Adam: A Method for Stochastic Optimization", ICLR 2015, algorithm 1;
// Loshchilov, Hutter: "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 2; torch.optim.Adam and AdamW) over
// the flat parameters of a network, with clipping of the global gradient norm (torch.nn.utils.clip_grad_norm_). Its
// state is on the device in the layout of the parameters.
type optimiser struct {
	*shard
	ranks *Ranks // nil with one rank
	opt   OptimOptions
	sumSq device.View // [1] Σ g²
	norm  device.View // [1] ‖g‖₂
	coef  device.View // [1] clip coefficient
	coef2 device.View // [1] its square, for parameters that are listed twice
	steps int64       // updates done

	average *average // of the weights; nil if none is kept
	limits  []limit  // of the scalars that the loss learns

	table []float64 // staging of scalars
}

func newOptimiser(dev device.Device, p *graph.Params, o OptimOptions) (*optimiser, error) {
	if err := p.AllocGrads(); err != nil {
		return nil, err
	}
	s, err := newShard(dev, p, bucketSize)
	if err != nil {
		return nil, err
	}
	s.bf16 = o.ReduceDtype == BF16
	opt := &optimiser{shard: s, opt: o}
	if err := device.AllocViews(dev, device.Float, 1, &opt.sumSq, &opt.norm, &opt.coef, &opt.coef2); err != nil {
		return nil, fmt.Errorf("allocate optimiser state: %w", err)
	}
	if opt.limits, err = newLimits(dev, p); err != nil {
		return nil, err
	}
	if o.EMA > 0 {
		if opt.average, err = newAverage(dev, p, o.EMA); err != nil {
			return nil, err
		}
	}
	return opt, nil
}

// join makes the optimiser the optimiser of a rank. nil stands for one rank.
func (o *optimiser) join(r *Ranks) {
	if r == nil {
		return
	}
	r.shard, o.ranks = o.shard, r
	if o.average != nil {
		r.average = o.average.values
	}
}

// update is one application of Adam to a range of the flat parameters. Each program has a list of them.
type update struct {
	span
	// nth of that many applications with the same gradient in one step. It is 1 of 1, except for parameters that are
	// listed twice (ParamSpec.Twice): they are counted in the norm, clipped and updated twice.
	nth, of int
	// factor is the gradient of a weight that stays a product; nil if the gradient is in the flat memory.
	factor *device.Factored
	at     int // index of its moments in the moments of the shard
}

// span is a range of the flat parameters with a scale of the learning rate, and with or without weight decay.
type span struct {
	lo, hi  int
	scale   float64
	noDecay bool
}

// updatesOf returns the updates of ranges whose gradient is applied that many times in a step.
func updatesOf(times int, spans ...span) (list []update) {
	for _, s := range spans {
		for nth := range times {
			list = append(list, update{span: s, nth: nth + 1, of: times})
		}
	}
	return list
}

// cut returns the parts of updates that are in the shard.
func (o *optimiser) cut(list []update) (own []update) {
	for _, t := range o.parts {
		for _, u := range list {
			if u.lo, u.hi = max(u.lo, t.from), min(u.hi, t.to); u.lo < u.hi {
				u.at = t.at + u.lo - t.from
				own = append(own, u)
			}
		}
	}
	return own
}

// norms computes the norm of the gradients and the clip coefficient.
func (o *optimiser) norms(list []update) {
	device.Do(o.dev, device.Fill{Dst: o.sumSq})
	for i := range list {
		if u := &list[i]; u.factor != nil {
			device.Do(o.dev, device.SumSquaresFactored{Sum: o.sumSq, Factored: *u.factor})
		} else {
			device.Do(o.dev, device.SumSquares{Sum: o.sumSq, X: o.params.Grads().Slice(u.lo, u.hi)})
		}
	}
	o.ranks.sum(o.sumSq)
	clip := cmp.Or(o.opt.Clip, math.MaxFloat32)
	device.Do(o.dev, device.ClipCoefficient{Coefficient: o.coef, Norm: o.norm, SumSquares: o.sumSq, Most: clip})
}

// hypersOf allocates the scalars of updates, 3 for each (device.Adam).
func (o *optimiser) hypersOf(list []update) (device.View, error) {
	b, err := o.dev.Alloc(device.Float, max(1, 3*len(list)))
	if err != nil {
		return device.View{}, fmt.Errorf("allocate scalars of the optimiser: %w", err)
	}
	return device.ViewOf(b).Slice(0, 3*len(list)), nil
}

// count counts a step and sets the scalars of its updates for learning rate lr.
func (o *optimiser) count(list []update, hypers device.View, lr float64) {
	o.steps++
	o.table = o.table[:0]
	b1, b2 := o.opt.Betas[0], o.opt.Betas[1]
	for i := range list {
		u := &list[i]
		t, lr, decay := float64(int64(u.of)*(o.steps-1)+int64(u.nth)), lr*u.scale, o.opt.WeightDecay
		if u.noDecay {
			decay = 0
		}
		o.table = append(o.table, lr/(1-math.Pow(b1, t)), 1/math.Sqrt(1-math.Pow(b2, t)), 1-lr*decay)
	}
	o.dev.UploadDoubles(hypers, o.table)
	if o.average != nil {
		o.average.count(o.steps)
	}
}

// apply updates the parameters of the shard and their average. A gradient that is applied twice is clipped twice. All
// ranks receive the scalars that a loss learns.
func (o *optimiser) apply(list []update, hypers device.View) {
	if slices.ContainsFunc(list, func(u update) bool { return u.of == 2 }) {
		device.Do(o.dev, device.Scale{Dst: o.coef2, X: o.coef, Factor: o.coef})
	}
	for i := range list {
		o.adam(&list[i], hypers.Slice(3*i, 3*i+3))
	}
	for i := range o.limits {
		l := &o.limits[i]
		l.apply(o.dev)
		if o.divided() {
			device.Do(o.dev, device.Broadcast{Root: o.owner(l.value.Off), X: l.value})
		}
	}
	if o.average != nil {
		o.average.update(o.parts)
	}
}

// adam does one update.
func (o *optimiser) adam(u *update, hyper device.View) {
	n := u.hi - u.lo
	a := device.Adam{P: o.params.Values().Slice(u.lo, u.hi), M: o.m.Slice(u.at, u.at+n), V: o.v.Slice(u.at, u.at+n),
		Hyper: hyper, Clip: o.coef, Beta1: o.opt.Betas[0], Beta2: o.opt.Betas[1], Eps: o.opt.Eps,
		Legacy: o.opt.LegacyEps}
	if u.of == 2 {
		a.Clip = o.coef2
	}
	if u.factor != nil {
		device.Do(o.dev, device.AdamFactored{Adam: a, Factored: *u.factor})
		return
	}
	a.G = o.params.Grads().Slice(u.lo, u.hi)
	device.Do(o.dev, a)
}

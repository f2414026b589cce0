package train

import (
	"errors"
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/loss"
	"vsetrain/models"
	"vsetrain/models/nn"
)

// NewModel builds a network with the scalars that a loss learns (loss.Options.Learned). They are trained, stored and
// averaged like the network's parameters.
func NewModel(dev device.Device, o models.Options, d models.Dims, l *loss.Options) (*models.Model, error) {
	var learned []*nn.Param
	for _, p := range l.Learned() {
		learned = append(learned, models.Learned(p.Name, p.Start, p.Least, p.Most))
	}
	return models.NewModel(dev, o, d, learned...)
}

// limit clamps a scalar that a loss learns to its range after an update (mlfoundations/open_clip,
// task/image_text_task.py: clamp_logit_scale).
type limit struct {
	name  string
	value device.View // [1]
	ends  device.View // [2] the lower end, the upper end with its sign changed
	pair  device.View // [2] scratch memory
	index device.View // int32 [1], scratch memory of the maximum
	open  [2]bool     // ends at infinity
}

// newLimits returns the limits of all parameters with a range.
func newLimits(dev device.Device, p *graph.Params) ([]limit, error) {
	var list []limit
	for _, s := range p.Specs {
		if s.Within == nil {
			continue
		}
		l := limit{name: s.Name, value: p.Value(s.Name)}
		err := errors.Join(device.AllocViews(dev, device.Float, 2, &l.ends, &l.pair),
			device.AllocViews(dev, device.Int32, 1, &l.index))
		if err != nil {
			return nil, fmt.Errorf("allocate the range of %s: %w", s.Name, err)
		}
		ends := []float64{s.Within[0], -s.Within[1]}
		for i := range ends {
			if l.open[i] = math.IsInf(ends[i], -1); l.open[i] {
				ends[i] = 0
			}
		}
		dev.UploadDoubles(l.ends, ends)
		list = append(list, l)
	}
	return list, nil
}

// apply computes x ← max(x, lower end), then -x ← max(-x, -upper end).
func (l *limit) apply(dev device.Device) {
	for i, sign := range []float64{1, -1} {
		if l.open[i] {
			continue
		}
		device.Do(dev, device.Combine{Dst: l.pair.Slice(0, 1), A: l.value, Alpha: sign})
		device.Do(dev, device.Copy{Dst: l.pair.Slice(1, 2), Src: l.ends.Slice(i, i+1)})
		device.Do(dev, device.Reduce{Max: true, N: 1, D: 2, X: l.pair, Y: l.value, Index: l.index})
		device.Do(dev, device.Combine{Dst: l.value, A: l.value, Alpha: sign})
	}
}

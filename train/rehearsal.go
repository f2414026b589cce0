package train

import (
	"fmt"
	"math"

	"vsetrain/data"
	"vsetrain/internal/compute/device"
)

// Rehearse does a step on a batch that changes nothing: with a clip coefficient of NaN the update does not change the
// parameters, and running statistics are restored. Afterwards the device has allocated all memory for steps of this
// size, including the scratch memory of kernels. On a device that is not a device.Recorder it does nothing.
func (s *Step) Rehearse(b *data.Batch) (err error) {
	if s.recorder == nil {
		return nil
	}
	dev := s.model.Instance.Dev
	if state := s.model.Instance.Params.State(); state.N > 0 {
		saved, err := dev.Alloc(device.Float, state.N)
		if err != nil {
			return fmt.Errorf("allocate a copy of the running statistics: %w", err)
		}
		device.Do(dev, device.Copy{Dst: device.ViewOf(saved), Src: state})
		defer func() {
			device.Do(dev, device.Copy{Dst: state, Src: device.ViewOf(saved)})
			dev.Free(saved)
		}()
	}
	s.at("a rehearsal of the training step")
	defer s.at("")
	p, _, err := s.ready(b, false)
	if err == nil {
		err = p.prepare()
	}
	if err != nil {
		return fmt.Errorf("rehearsal of the training step: %w", err)
	}
	s.opt.count(p.updates, p.hypers, 0)
	s.opt.steps--
	s.at(p.name)
	if err := p.compute(s.opt.shard); err != nil {
		return fmt.Errorf("rehearsal of the training step: %w", err)
	}
	s.opt.norms(p.updates)
	device.Do(dev, device.Fill{Dst: s.opt.coef, Value: math.NaN()})
	s.opt.apply(p.updates, p.hypers)
	if err := dev.Sync(); err != nil {
		return fmt.Errorf("rehearsal of the training step: %w", err)
	}
	return nil
}

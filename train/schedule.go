package train

import "math"

// LearningRate returns the learning rate of a step, counted from 0, in a run with that many batches per epoch.
//
//	repeat, once  lr, times decay at each update of the schedule (the references: train.py, adjust_learning_rate)
//	cosine        lr (end + (1 - end) (1 + cos π p) / 2), p the progress from the end of warm-up to cosine_epochs
//
// In the first warmup_steps steps it is multiplied by (step + 1) / warmup_steps.
//
// Sources: P. Goyal et al., Accurate, Large Minibatch SGD, 2017 (gradual warm-up); I. Loshchilov, F. Hutter, SGDR,
// ICLR 2017 (cosine, one cycle).
func (o *OptimOptions) LearningRate(step int64, batches int) float64 {
	lr := o.LR
	if o.Schedule == Cosine {
		total := int64(o.CosineEpochs)*int64(batches) - int64(o.WarmupSteps)
		p := 1.0
		if done := step - int64(o.WarmupSteps); done < total {
			p = max(0, float64(done)/float64(total))
		}
		lr *= o.CosineEnd + (1-o.CosineEnd)*(1+math.Cos(math.Pi*p))/2
	} else {
		lr *= math.Pow(o.Decay, float64(o.decays(int(step/int64(batches)))))
	}
	if step < int64(o.WarmupSteps) {
		lr *= float64(step+1) / float64(o.WarmupSteps)
	}
	return lr
}

// decays returns the number of updates of the schedules repeat and once before an epoch, counted from 0.
func (o *OptimOptions) decays(epoch int) (n int) {
	switch {
	case o.LRUpdate == 0:
	case o.Schedule != Once:
		n = epoch / o.LRUpdate
	case epoch >= o.LRUpdate:
		n = 1
		if o.LRUpdate2 > 0 && epoch >= o.LRUpdate2 {
			n++
		}
	}
	return n
}

// Settle sets the end of the cosine to the planned number of epochs, so that it stays if the run is trained for longer.
func (o *OptimOptions) Settle(epochs int) {
	if o.Schedule == Cosine && o.CosineEpochs == 0 {
		o.CosineEpochs = epochs
	}
}

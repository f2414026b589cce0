package train

import (
	"fmt"
	"math"
	"slices"

	"vsetrain/data"
)

// StepResult is the result of a step.
type StepResult struct {
	Loss                   float64 // the whole loss
	LossCaption, LossImage float64 // its caption-retrieval and image-retrieval parts
	LossCaptioning         float64 // the captioning branch's part, 0 without one
	GradNorm               float64 // before clipping
	Gap                    float64 // how much higher the highest-scoring negatives score than the matches; see gap
	LearningRate           float64
	Stop                   bool // a rank wants to stop (Ranks.WantStop)
}

// NotFiniteError is the error of a step whose loss or gradient is NaN or infinite. The step changes no parameter, but
// it may change running statistics.
type NotFiniteError struct {
	What  string
	Value float64
}

func (e *NotFiniteError) Error() string { return fmt.Sprintf("%s is %v", e.What, e.Value) }

// Run does one step on a batch with learning rate lr. sum selects the warm-up form of the loss.
func (s *Step) Run(b *data.Batch, lr float64, sum bool) (StepResult, error) {
	if err := s.Start(b, lr, sum); err != nil {
		return StepResult{}, err
	}
	return s.Finish()
}

// Finish waits for the oldest started step and returns its result.
func (s *Step) Finish() (StepResult, error) {
	st, x, scores, err := s.pop()
	if err != nil {
		return StepResult{}, err
	}
	r, remembered := st.p.result(x)
	r.LearningRate = st.lr
	if !finite(r.Loss) || !finite(r.GradNorm) {
		s.opt.steps-- // nothing was updated
		if finite(r.Loss) {
			return r, &NotFiniteError{"the gradient norm", r.GradNorm}
		}
		return r, &NotFiniteError{"the loss", r.Loss}
	}
	s.memory.take(remembered)
	n := int(math.Sqrt(float64(len(scores))))
	s.hardest = slices.Grow(s.hardest[:0], n)[:n]
	r.Gap = gap(scores, s.hardest, n)
	return r, nil
}

// result turns the scalars of reports into a result. remembered are the scalars for the memory of the loss.
func (p *program) result(x []float64) (r StepResult, remembered []float64) {
	r = StepResult{Loss: x[0], LossCaption: x[1], LossImage: x[2], GradNorm: x[3]}
	x = x[4:]
	if p.captioning != nil {
		r.LossCaptioning = x[0]
		r.Loss, x = r.Loss+x[0], x[1:]
	}
	if p.summed.Present() {
		r.Stop, x = x[0] > 0, x[1:]
	}
	return r, x
}

// gap returns how much higher the highest-scoring negatives score than the matches, summed over rows and columns:
//
//	Σ_i max_{j≠i} S_ij - S_ii + Σ_j max_{i≠j} S_ij - S_jj
//
// The loss of LMH is 2·B·margin + gap while every hinge is active. hardest is scratch memory of n values.
func gap(scores, hardest []float32, n int) float64 {
	lowest := float32(math.Inf(-1))
	for j := range hardest[:n] {
		hardest[j] = lowest
	}
	sum := 0.0
	for i := range n {
		row := scores[i*n : (i+1)*n]
		top := lowest
		for j, s := range row {
			if j != i {
				top, hardest[j] = max(top, s), max(hardest[j], s)
			}
		}
		sum += float64(top) - float64(row[i])
	}
	for j, s := range hardest[:n] {
		sum += float64(s) - float64(scores[j*n+j])
	}
	return sum
}

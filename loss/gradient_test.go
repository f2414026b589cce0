package loss

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/compute/philox"
	"vsetrain/lab/try"
)

// evaluator computes a loss, with its learned scalars at their start, over scores in float64.
type evaluator struct {
	s          *graph.Instance
	p          *graph.Program
	l          *graph.Node
	grad       []*graph.Node // of the scores, then of each scalar
	remembered []*graph.Node // Context.Remember
	fixed      []*graph.Node // values through which nothing flows back (graph.Graph.OnStopGradient)
}

// newEvaluator feeds what the memory of a new run draws. It holds the values through which nothing flows back at given
// ones, if there are any.
func newEvaluator(t *testing.T, o *Options, n int, warmUp bool, images []int32, held ...[]float64) *evaluator {
	t.Helper()
	e := evaluatorOf(t, o, n, warmUp, images, held)
	if m := o.Memory(); m != nil {
		try.Do(t, m.Feed(e.s, &Batch{N: n, Seed: 1, WarmUp: warmUp}))
	}
	return e
}

// evaluatorOf leaves the inputs of the memory to its caller.
func evaluatorOf(t *testing.T, o *Options, n int, warmUp bool, images []int32, held [][]float64) *evaluator {
	t.Helper()
	dev := try.Get(cpu.New(cpu.Options{Threads: 1, Precision: cpu.FP64}))(t)
	t.Cleanup(func() { dev.Close() })
	var specs []graph.ParamSpec
	for _, l := range o.Learned() {
		specs = append(specs, graph.ParamSpec{Name: "loss." + l.Name, Shape: []int{1}})
	}
	e := &evaluator{s: try.Get(graph.NewInstance(dev, specs))(t)}
	for _, l := range o.Learned() {
		dev.UploadDoubles(e.s.Params.Value("loss."+l.Name), []float64{l.Start})
	}
	const k = 3
	vectors := philox.NewKey(1, "vectors").Stream(0)
	semantics := make([]float64, n*k)
	for i := range semantics {
		semantics[i] = vectors.Norm()
	}
	try.Do(t, errors.Join(e.s.FeedDoubles("semantics", semantics), e.s.FeedInts("images", images)))
	g := e.s.Graph()
	try.Do(t, graph.Build(func() (err error) {
		g.OnStopGradient = func(x *graph.Node) *graph.Node {
			if held != nil {
				x = g.Const(fmt.Sprintf("fixed.%d", len(e.fixed)), held[len(e.fixed)], x.Shape()...)
			}
			e.fixed = append(e.fixed, x)
			return x
		}
		in := g.Input("scores", n, n)
		c := Context{Semantics: g.Input("semantics", n, k), Images: g.InputInts("images", n),
			Remember: func(values ...*graph.Node) { e.remembered = values }}
		c.Captions = c.Images
		e.l = o.Build(g, in, c, warmUp)
		wrt := []*graph.Node{in}
		for _, l := range o.Learned() {
			wrt = append(wrt, g.Lookup("loss."+l.Name))
		}
		if e.grad, err = g.Gradients(e.l, wrt...); err != nil {
			return err
		}
		e.p, err = graph.Compile(e.s, g, slices.Concat([]*graph.Node{e.l}, e.grad, e.remembered, e.fixed), nil)
		return err
	}))
	return e
}

// at computes the loss and its gradient.
func (e *evaluator) at(t *testing.T, scores []float64) (loss float64, gradient []float64) {
	t.Helper()
	try.Do(t, e.s.FeedDoubles("scores", scores))
	try.Do(t, e.p.RunAll())
	return e.p.Doubles(e.l)[0], doubles(e.p, e.grad)
}

// doubles are the values of nodes, one after the other.
func doubles(p *graph.Program, nodes []*graph.Node) (values []float64) {
	for _, n := range nodes {
		values = append(values, p.Doubles(n)...)
	}
	return values
}

// forms calls run for every loss in the form of later epochs, where it exists in the form of warm-up, and with the
// options that change what is computed.
func forms(t *testing.T, run func(t *testing.T, name string, o *Options, warmUp bool)) {
	more := map[string][]func(o *Options){
		"infonce": {func(o *Options) {
			o.Own[infoNCEConstants.at] = infoNCEOptions{Temperature: 0.05, Learn: "temperature", Targets: "same_image"}
		}},
		"relative": {guidedByMeaning},
		"sam": {func(o *Options) {
			o.Own[samConstants.at] = samOptions{Weight: 5, Divisor: 3, Negatives: "hardest", Margins: "released"}
		}},
	}
	for _, method := range []string{"tan", "abs", "exp", "gce", "infonce"} {
		more["rcl"] = append(more["rcl"], func(o *Options) {
			o.Own[rclConstants.at] = rclOptions{Temperature: 0.05, Method: method, Q: 0.2, Ratio: 1}
		})
	}
	for _, name := range Names() {
		for k, change := range append([]func(o *Options){func(*Options) {}}, more[name]...) {
			for _, warmUp := range []bool{false, true} {
				o := DefaultOptions()
				o.Name = name
				change(&o)
				if warmUp && registry[name].noWarmUp {
					continue
				}
				form := name + "/" + string(rune('a'+k))
				if warmUp {
					form += " warm-up"
				}
				t.Run(form, func(t *testing.T) { run(t, form, &o, warmUp) })
			}
		}
	}
}

func guidedByMeaning(o *Options) {
	o.Own[relativeConstants.at] = relativeOptions{Guide: "semantics", Filter: "absolute", Distance: 0.5}
}

// With the guide semantics a negative counts where the semantic vectors of the captions are apart, whatever its score.
func TestRelativeGuidedByMeaning(t *testing.T) {
	const n = 6
	o := DefaultOptions()
	o.Name = "relative"
	guidedByMeaning(&o)
	r, vectors := philox.NewKey(6, "scores").Stream(0), philox.NewKey(1, "vectors").Stream(0) // as newEvaluator draws
	scores, semantics := make([]float64, n*n), make([][3]float64, n)
	for i := range scores {
		scores[i] = r.Float64()
	}
	for i := range semantics {
		for k := range semantics[i] {
			semantics[i][k] = vectors.Norm()
		}
	}
	dot := func(a, b [3]float64) float64 { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }
	want, left := 0.0, 0
	for i := range n {
		row, column := 0.0, 0.0
		for j := range n {
			a, b := semantics[i], semantics[j]
			if i == j {
				continue
			}
			if dot(a, b)/math.Sqrt(dot(a, a)*dot(b, b)) > 0.5 {
				left++
				continue
			}
			row = max(row, o.Margin+scores[i*n+j]-scores[i*n+i])
			column = max(column, o.Margin+scores[j*n+i]-scores[i*n+i])
		}
		want += row + column
	}
	got, _ := newEvaluator(t, &o, n, false, make([]int32, n)).at(t, scores)
	if left == 0 || left == n*(n-1) || math.Abs(got-want) > 1e-12 {
		t.Errorf("%d of %d negatives left out: %v, expected %v", left, n*(n-1), got, want)
	}
}

// The gradient of every loss is compared with central differences, with respect to scores and to what it learns. What
// the loss declares constant (graph.Graph.StopGradient) is held at its value meanwhile.
func TestGradientsByFiniteDifferences(t *testing.T) {
	const n, h = 6, 1e-6
	forms(t, func(t *testing.T, name string, o *Options, warmUp bool) {
		r := philox.NewKey(5, "scores").Stream(0)
		scores := make([]float64, n*n)
		for i := range scores {
			scores[i] = 0.8*r.Float64() - 0.1
		}
		images := []int32{0, 1, 2, 2, 3, 4}
		e := newEvaluator(t, o, n, warmUp, images)
		_, gradient := e.at(t, scores)
		if len(e.fixed) > 0 {
			var held [][]float64
			for _, x := range e.fixed {
				held = append(held, e.p.Doubles(x))
			}
			e = newEvaluator(t, o, n, warmUp, images, held...)
		}
		size := 0.0
		for _, v := range gradient {
			size = max(size, math.Abs(v))
		}
		if size == 0 {
			t.Fatal("no gradient")
		}
		check := func(i int, up, down float64) {
			t.Helper()
			if got := (up - down) / (2 * h); math.Abs(got-gradient[i]) > 2e-6*size {
				t.Errorf("element %d of the gradient is %v, differences with %d values of StopGradient held give %v",
					i, gradient[i], len(e.fixed), got)
			}
		}
		for i, s := range scores {
			scores[i] = s + h
			up, _ := e.at(t, scores)
			scores[i] = s - h
			down, _ := e.at(t, scores)
			scores[i] = s
			check(i, up, down)
		}
		for i, l := range o.Learned() {
			v := e.s.Params.Value("loss." + l.Name)
			e.s.Dev.UploadDoubles(v, []float64{l.Start + h})
			up, _ := e.at(t, scores)
			e.s.Dev.UploadDoubles(v, []float64{l.Start - h})
			down, _ := e.at(t, scores)
			e.s.Dev.UploadDoubles(v, []float64{l.Start})
			check(n*n+i, up, down)
		}
	})
}

// Loss and gradient are finite where all scores are equal, as at the start of a training, where all pairs are of one
// image, for extreme scores, and for one pair.
func TestLossesAreFinite(t *testing.T) {
	forms(t, func(t *testing.T, _ string, o *Options, warmUp bool) {
		for what, value := range map[string]func(i, j int) float64{
			"equal":    func(int, int) float64 { return 0.5 },
			"zero":     func(int, int) float64 { return 0 },
			"ones":     func(int, int) float64 { return 1 },
			"repeated": func(i, j int) float64 { return math.Sin(float64(j)) },
			"extreme": func(i, j int) float64 {
				if i == j {
					return -1
				}
				return 1
			},
		} {
			for _, n := range []int{1, 2, 4} {
				scores := make([]float64, n*n)
				for i := range scores {
					scores[i] = value(i/n, i%n)
				}
				images := make([]int32, n) // all of one image
				loss, gradient := newEvaluator(t, o, n, warmUp, images).at(t, scores)
				for i, v := range append(gradient, loss) {
					if math.IsNaN(v) || math.IsInf(v, 0) {
						t.Errorf("%s scores of %d pairs: loss %v, element %d of the gradient %v", what, n, loss, i, v)
					}
				}
			}
		}
	})
}

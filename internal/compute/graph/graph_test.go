package graph_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/compute/philox"
	"vsetrain/lab/try"
)

// The types of the literals that build an op.
type (
	Graph = graph.Graph
	Node  = graph.Node
)

func newSession(t testing.TB, precision string, threads int, specs ...graph.ParamSpec) *graph.Instance {
	t.Helper()
	dev := try.Get(cpu.New(cpu.Options{Threads: threads, Precision: precision}))(t)
	t.Cleanup(func() { dev.Close() })
	return try.Get(graph.NewInstance(dev, specs))(t)
}

func random(name string, n int) []float64 {
	s := philox.NewKey(1, name).Stream(0)
	x := make([]float64, n)
	for i := range x {
		x[i] = s.Norm()
	}
	return x
}

// opCase is one op applied to float inputs of given shapes; out builds it.
type opCase struct {
	name   string
	shapes [][]int
	out    func(g *Graph, in []*Node) *Node
}

var (
	words   = []int32{3, 1, 4, 2, 5, 1, 1, 0, 2, 0, 0, 0} // [3, 4]
	lengths = []int32{4, 3, 1}
	total   = 8 // words in the batch
)

func wordsOf(g *Graph) *Node   { return g.InputInts("words", 3, 4) }
func lengthsOf(g *Graph) *Node { return g.InputInts("lengths", 3) }

func gruCase(name string, reverse, final bool) opCase {
	return opCase{name, [][]int{{12, 2}, {9, 2}, {9, 3}, {9}, {9}}, func(g *Graph, in []*Node) *Node {
		w := graph.GRUWeights{WIH: in[1], WHH: in[2], BIH: in[3], BHH: in[4]}
		return g.GRU(in[0], lengthsOf(g), w, reverse, final)
	}}
}

func running(g *graph.Graph, in []*graph.Node) graph.BatchNormWeights {
	return graph.BatchNormWeights{Weight: in[0], Bias: in[1], Mean: g.Const("mean", []float64{0.5, -1, 2}, 3),
		Var: g.Const("var", []float64{0.5, 1, 2}, 3)}
}

func batchNorm(training bool, axis int) func(g *Graph, in []*Node) *Node {
	return func(g *Graph, in []*Node) *Node {
		g.Training = training
		return g.BatchNorm(in[0], axis, running(g, in[1:]))
	}
}

func sortPool(packed bool) func(g *Graph, in []*Node) *Node {
	return func(g *Graph, in []*Node) *Node { return g.SortPool(in[0], lengthsOf(g), in[1], packed) }
}

// Names that begin with "gru" or "rows" are of packed or concatenated rows: of 12 rows of an argument or result the
// first 8 are there.
var opCases = []opCase{
	{"linear", [][]int{{3, 4}, {5, 4}, {5}}, func(g *Graph, in []*Node) *Node {
		return g.Linear(graph.LinearTerm{X: in[0], W: in[1], B: in[2]})
	}},
	{"linear without bias", [][]int{{3, 4}, {5, 4}}, func(g *Graph, in []*Node) *Node {
		return g.Linear(graph.LinearTerm{X: in[0], W: in[1]})
	}},
	{"product", [][]int{{3, 4}, {2, 4}}, func(g *Graph, in []*Node) *Node { return g.MatMulT(in[0], in[1], true) }},
	{"l2 rows", [][]int{{3, 4}}, func(g *Graph, in []*Node) *Node { return g.L2Norm(in[0], 1, 0) }},
	{"l2 middle axis", [][]int{{2, 3, 4}}, func(g *Graph, in []*Node) *Node { return g.L2Norm(in[0], 1, 1e-8) }},
	{"relu", [][]int{{3, 4}}, func(g *Graph, in []*Node) *Node { return g.Activate(device.ReLU, in[0]) }},
	{"tanh", [][]int{{3, 4}}, func(g *Graph, in []*Node) *Node { return g.Activate(device.Tanh, in[0]) }},
	{"sigmoid", [][]int{{3, 4}}, func(g *Graph, in []*Node) *Node { return g.Activate(device.Sigmoid, in[0]) }},
	{"abs", [][]int{{3, 4}}, func(g *Graph, in []*Node) *Node { return g.Activate(device.Abs, in[0]) }},
	{"reshape of an input", [][]int{{3, 4}, {2, 6}}, func(g *Graph, in []*Node) *Node {
		return g.MatMulT(g.Reshape(in[0], 2, 6), in[1], true)
	}},
	{"reshape of a result", [][]int{{3, 4}}, func(g *Graph, in []*Node) *Node {
		return g.Reshape(g.Activate(device.Tanh, in[0]), 2, 6)
	}},
	{"a node used twice", [][]int{{3, 4}}, func(g *Graph, in []*Node) *Node {
		x := g.Activate(device.Tanh, in[0])
		return g.MatMulT(x, x, true)
	}},
	{"order scores", [][]int{{3, 4}, {2, 4}}, func(g *Graph, in []*Node) *Node { return g.OrderScores(in[0], in[1]) }},
	{"words into gru", [][]int{{6, 2}, {9, 2}, {9, 3}, {9}, {9}}, func(g *Graph, in []*Node) *Node {
		w, l := wordsOf(g), lengthsOf(g)
		return g.GRU(g.Embedding(w, l, in[0]), l, graph.GRUWeights{WIH: in[1], WHH: in[2], BIH: in[3], BHH: in[4]},
			false,
			true)
	}},
	{"batch norm of rows, training", [][]int{{5, 3}, {3}, {3}}, batchNorm(true, 1)},
	{"batch norm of rows, evaluation", [][]int{{5, 3}, {3}, {3}}, batchNorm(false, 1)},
	{"batch norm of the middle axis, training", [][]int{{2, 3, 4}, {3}, {3}}, batchNorm(true, 1)},
	{"batch norm of the first axis, evaluation", [][]int{{3, 4}, {3}, {3}}, batchNorm(false, 0)},
	{"rows of linear", [][]int{{12, 2}, {3, 2}, {3}, {12, 4}, {3, 4}},
		func(g *Graph, in []*Node) *Node {
			return g.LinearRows(lengthsOf(g), graph.LinearTerm{X: in[0], W: in[1], B: in[2]},
				graph.LinearTerm{X: in[3], W: in[4]})
		}},
	{"rows of batch norm", [][]int{{12, 3}, {3}, {3}}, func(g *Graph, in []*Node) *Node {
		l := lengthsOf(g)
		g.Training = true
		return g.BatchNormRows(in[0], l, nil, running(g, in[1:]))
	}},
	{"rows of padded batch norm", [][]int{{12, 3}, {3}, {3}, {3}}, func(g *Graph, in []*Node) *Node {
		l := lengthsOf(g)
		g.Training = true
		return g.BatchNormRows(in[0], l, in[3], running(g, in[1:]))
	}},
	{"rows of bigru", [][]int{{12, 2}, {9, 2}, {9, 3}, {9}, {9}, {9, 2}, {9, 3}, {9}, {9}},
		func(g *Graph, in []*Node) *Node {
			l := lengthsOf(g)
			return g.BiGRU(in[0], l, graph.GRUWeights{WIH: in[1], WHH: in[2], BIH: in[3], BHH: in[4]},
				graph.GRUWeights{WIH: in[5], WHH: in[6], BIH: in[7], BHH: in[8]})
		}},
	{"pool weights", [][]int{{8, 1}}, func(g *Graph, in []*Node) *Node {
		return g.PoolWeights(in[0], lengthsOf(g), 5, 0.7)
	}},
	{"rows into sort pool", [][]int{{12, 3}, {4, 4}}, sortPool(false)},
	{"rows into packed sort pool", [][]int{{12, 3}, {4, 4}}, sortPool(true)},
	gruCase("gru final", false, true), gruCase("gru states", false, false),
	gruCase("gru reverse final", true, true), gruCase("gru reverse states", true, false),
}

// The gradient of every op, composed with a weighted sum, against central differences in float64.
func TestGradientsMatchFiniteDifferences(t *testing.T) {
	for _, c := range slices.Concat(opCases, composeCases, regionCases, matchingCases, transformerCases, pairCases) {
		t.Run(c.name, func(t *testing.T) {
			s := newSession(t, cpu.FP64, 2)
			g := s.Graph()
			g.Training, g.Seed = !strings.HasSuffix(c.name, "in evaluation"), 5
			var in []*graph.Node
			values := make([][]float64, len(c.shapes))
			for i, sh := range c.shapes {
				n := 1
				for _, d := range sh {
					n *= d
				}
				name := fmt.Sprintf("x%d", i)
				in = append(in, g.Input(name, sh...))
				values[i] = random(c.name+name, n)
				try.Do(t, s.FeedDoubles(name, values[i]))
			}
			try.Do(t, s.FeedInts("words", words))
			try.Do(t, s.FeedInts("lengths", lengths))
			feedRegions(t, s)
			out := c.out(g, in)
			weights := random(c.name+" weights", out.Shape().TotalSize())
			ragged := strings.HasPrefix(c.name, "gru") || strings.HasPrefix(c.name, "rows")
			if ragged && out.Shape()[0] == len(words) {
				clear(weights[total*out.Shape()[1]:]) // rows beyond the words hold anything
			}
			try.Do(t, s.FeedDoubles("w", weights))
			cost := g.WeightedSum(out, g.Input("w", out.Shape()...))
			grads := try.Get(g.Gradients(cost, in...))(t)
			prog := try.Get(graph.Compile(s, g, append([]*graph.Node{cost}, grads...), nil))(t)
			run := func() float64 { try.Do(t, prog.RunAll()); return prog.Doubles(cost)[0] }
			run()
			got := make([][]float64, len(grads))
			for i := range grads {
				got[i] = prog.Doubles(grads[i])
			}
			for i := range values {
				rows := len(values[i])
				if ragged && c.shapes[i][0] == len(words) {
					rows = total * c.shapes[i][1] // those that hold words
				}
				for j, x := range values[i][:rows] {
					const h = 1e-6
					feed := func(x float64) {
						values[i][j] = x
						try.Do(t, s.FeedDoubles(fmt.Sprintf("x%d", i), values[i]))
					}
					feed(x + h)
					up := run()
					feed(x - h)
					down := run()
					feed(x)
					if want := (up - down) / (2 * h); math.Abs(got[i][j]-want) > 1e-7*(1+math.Abs(want)) {
						t.Fatalf("gradient of argument %d element %d is %.9g, differences give %.9g", i, j, got[i][j],
							want)
					}
				}
			}
		})
	}
}

// tower is a small two-tower network with parameters, n pairs.
func tower(s *graph.Instance, n int) (g *graph.Graph, cost *graph.Node, wrt []*graph.Node) {
	g = s.Graph()
	x := g.Input("x", n, 6)
	h := g.Activate(device.Tanh, g.Linear(graph.LinearTerm{X: x, W: g.Param("w1", 5, 6), B: g.Param("b1", 5)}))
	im := g.L2Norm(g.Linear(graph.LinearTerm{X: h, W: g.Param("w2", 4, 5), B: g.Param("b2", 4)}), 1, 0)
	tx := g.L2Norm(g.Linear(graph.LinearTerm{X: g.Activate(device.Sigmoid, h), W: g.Param("w2", 4, 5),
		B: g.Param("b2", 4)}), 1, 0)
	cost = g.WeightedSum(g.MatMulT(im, tx, true), g.Input("w", n, n))
	for _, p := range towerSpecs {
		wrt = append(wrt, g.Param(p.Name, p.Shape...))
	}
	return g, cost, wrt
}

var towerSpecs = []graph.ParamSpec{{Name: "w1", Shape: []int{5, 6}}, {Name: "b1", Shape: []int{5}},
	{Name: "w2", Shape: []int{4, 5}}, {Name: "b2", Shape: []int{4}}}

// run compiles the tower for n pairs, sends its gradients to the flat memory and returns cost and gradients.
func runTower(t testing.TB, s *graph.Instance, n int) (*graph.Program, func() []float64) {
	try.Do(t, s.Params.AllocGrads())
	for _, p := range towerSpecs {
		s.Dev.UploadDoubles(s.Params.Value(p.Name), random(p.Name, p.Size()))
	}
	g, cost, wrt := tower(s, n)
	grads := try.Get(g.Gradients(cost, wrt...))(t)
	var targets []graph.Target
	for i, gr := range grads {
		targets = append(targets, graph.Target{Node: gr, Into: s.Params.Grad(towerSpecs[i].Name)})
	}
	prog := try.Get(graph.Compile(s, g, []*graph.Node{cost}, targets))(t)
	var _ gorgonia.VM = prog
	return prog, func() []float64 {
		try.Do(t, s.FeedDoubles("x", random("x", n*6)))
		try.Do(t, s.FeedDoubles("w", random("w", n*n)))
		try.Do(t, prog.RunAll())
		v := s.Params.Grads()
		out := make([]float64, v.N)
		s.Dev.DownloadDoubles(out, v)
		return append(out, prog.Doubles(cost)...)
	}
}

// Programs of several shapes share one slab; running them in turn changes nothing.
func TestProgramsShardMemory(t *testing.T) {
	s := newSession(t, cpu.FP32, 2, towerSpecs...)
	_, small := runTower(t, s, 3)
	first := small()
	_, large := runTower(t, s, 17) // grows the slab: the small program must follow
	big := large()
	for round := range 3 {
		if !slices.Equal(small(), first) || !slices.Equal(large(), big) {
			t.Fatalf("round %d: results changed after another program ran", round)
		}
	}
}

func TestResultsDoNotDependOnThreadsOrCompilation(t *testing.T) {
	var want []float64
	for _, threads := range []int{1, 2, 3, 5} {
		s := newSession(t, cpu.FP32, threads, towerSpecs...)
		_, run := runTower(t, s, 33)
		got := run()
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d threads give other bits than 1", threads)
		}
	}
}

func TestRunAllocatesNothing(t *testing.T) {
	s := newSession(t, cpu.FP32, 2, towerSpecs...)
	prog, run := runTower(t, s, 9)
	run()
	if n := testing.AllocsPerRun(50, func() { try.Do(t, prog.RunAll()) }); n != 0 {
		t.Fatalf("%v allocations per run, want 0", n)
	}
}

func TestMistakesAreErrors(t *testing.T) {
	s := newSession(t, cpu.FP32, 1, towerSpecs...)
	try.Fails(t, graph.Build(func() error {
		g := s.Graph()
		g.Linear(graph.LinearTerm{X: g.Input("x", 3, 4), W: g.Param("w1", 5, 6)})
		return nil
	}), "weight of a linear layer has shape (5, 6), want [5 4]")
	prog, _ := runTower(t, s, 3)
	try.Fails(t, prog.RunAll(), "input x holds 0 values, the graph wants 18")
	g := s.Graph()
	x := g.Input("x", 2, 2)
	sum := try.Get(gorgonia.Add(x, x))(t)
	sq := try.Get(gorgonia.Square(sum))(t)
	try.Refuses(graph.Compile(s, g, []*graph.Node{sq}, nil))(t, "has no kernel")
}

// A matrix that ranks multiply by rows has one reader: the gradient that a second one adds would stay on its rank.
func TestOneFirstReaderOfAMatrixBySliceRows(t *testing.T) {
	s := newSession(t, "fp64", 1, graph.ParamSpec{Name: "w", Shape: []int{8, 16}})
	g := s.Graph()
	g.Shard = graph.Shard{Ranks: 2, Items: 2, Rows: map[string][]int32{"w": {4, 4}}}
	w := g.Param("w", 8, 16)
	y := g.Linear(graph.LinearTerm{X: g.Input("x", 1, 16), W: w})
	try.Get(graph.Compile(s, g, []*graph.Node{y}, nil))(t)
	_, err := graph.Compile(s, g, []*graph.Node{y, g.Scale(w, 2)}, nil)
	try.Fails(t, err, "times 2 reads w")
}

// A large input is read in place, a small or double one copied; changing between them keeps the values apart.
func TestFeedInPlaceAndCopied(t *testing.T) {
	s := newSession(t, cpu.FP32, 2)
	const n = 1 << 17
	g := s.Graph()
	x := g.Input("x", 2, n/2)
	y := g.Activate(device.Abs, x)
	prog := try.Get(graph.Compile(s, g, []*graph.Node{y}, nil))(t)
	a, b := make([]float32, n), make([]float32, n)
	for i := range a {
		a[i], b[i] = float32(-i), float32(2*i)
	}
	at := func(i int, want float64) {
		t.Helper()
		try.Do(t, prog.RunAll())
		if got := prog.Doubles(y)[i]; got != want {
			t.Fatalf("value %d is %v, want %v", i, got, want)
		}
	}
	try.Do(t, s.Feed("x", a))
	at(n-1, n-1)
	try.Do(t, s.Feed("x", b))
	at(n-1, 2*(n-1))
	c := make([]float64, n)
	c[n-1] = -7
	try.Do(t, s.FeedDoubles("x", c)) // must not write to b
	at(n-1, 7)
	if b[n-1] != 2*(n-1) {
		t.Fatal("feeding doubles overwrote the slice fed before")
	}
	try.Do(t, s.Feed("x", a))
	at(n-1, n-1)
	allocs := testing.AllocsPerRun(10, func() { try.Do(t, s.Feed("x", a)); try.Do(t, s.Feed("x", b)) })
	if allocs != 0 {
		t.Errorf("%v allocations, want 0", allocs)
	}
	// A part: with capacity after it, as the loader's batches have, and without.
	try.Do(t, s.FeedPart("x", b[:n/2], n))
	at(n/2-1, 2*(n/2-1))
	try.Do(t, s.FeedPart("x", slices.Clip(a[:n/2]), n))
	at(n/2-1, n/2-1)
	if b[0] != 0 || b[1] != 2 {
		t.Fatal("feeding a part overwrote the slice fed before")
	}
	if err := s.FeedPart("x", a, n-1); err == nil {
		t.Error("more values than there is room for were accepted")
	}
}

// gatherer counts the gathers that are made, of a table of 100 values.
type gatherer struct {
	device.Device
	made []device.View
}

func (g *gatherer) Do(k device.Kernel) bool {
	a, ok := k.(*device.Gather)
	if !ok {
		return g.Device.Do(k)
	}
	g.made = append(g.made, a.Dst)
	return true
}
func (g *gatherer) Len() int     { return 100 }
func (g *gatherer) Bytes() int64 { return 400 }

// An input is gathered when a program is prepared, once, to where the input then lies, and not over what was fed since.
func TestGathersWait(t *testing.T) {
	dev := try.Get(cpu.New(cpu.Options{Threads: 1}))(t)
	defer dev.Close()
	from := &gatherer{Device: dev}
	s := try.Get(graph.NewInstance(from, nil))(t)
	g := s.Graph()
	x, z := g.Input("x", 2, 10), g.Input("z", 1, 10)
	prog := try.Get(graph.Compile(s, g, []*graph.Node{g.Activate(device.Abs, x), g.Activate(device.Abs, z)}, nil))(t)
	try.Do(t, s.Feed("z", make([]float32, 10)))
	try.Do(t, s.FeedRows("x", from, []int32{3}, 10, 10))
	try.Do(t, s.FeedRows("x", from, []int32{3, 1}, 10, 20))
	try.Do(t, s.FeedRows("z", from, []int32{3}, 10, 10))
	try.Do(t, s.Feed("z", make([]float32, 10)))
	if len(from.made) != 0 {
		t.Errorf("%d gathers before the program is prepared", len(from.made))
	}
	for range 2 {
		try.Do(t, prog.RunAll())
	}
	if len(from.made) != 1 || from.made[0].N != 20 {
		t.Errorf("gathers %+v, expected one of 20 values", from.made)
	}
}

package loss

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/system/options"
	"vsetrain/lab/definitions"
	"vsetrain/lab/golden"
	"vsetrain/lab/reference"
	"vsetrain/lab/try"
)

type lossCase struct {
	raw          json.RawMessage
	Name         string
	Scores       [][]float64
	ImageEmb     [][]float64 `json:"image_emb"`
	CaptionEmb   [][]float64 `json:"caption_emb"`
	Type         string      `json:"loss_type"`
	Similarity   string
	Margin       *float64
	Alpha, Lam   float64
	MaxViolation bool        `json:"max_violation"`
	CaptionIDs   []int32     `json:"caption_ids"`
	ImageIDs     []int32     `json:"image_ids"`
	Divisor      int32       `json:"caption_id_divisor"`
	Semantics    [][]float64 `json:"semantic_vectors"`
	Pos          [3]float64  `json:"pos_coeffs"`
	Neg          [3]float64  `json:"neg_coeffs"`
	Config       struct {
		Targets, Filter                           string
		Temperature, Margin, Epsilon, Rho, Weight float64
		FilterMargin                              float64 `json:"filter_margin"`
		TeacherTemperature                        float64 `json:"teacher_temperature"`
		MaxViolation                              *bool   `json:"max_violation"`
		Tau, Q, Ratio, Divisor, Lambda1, Lambda2  float64
		Method, Margins                           string
		HardNegatives                             int `json:"hard_negatives"`
	}
	Inputs struct {
		TeacherVectors [][]float64 `json:"teacher_vectors"`
		FilterScores   [][]float64 `json:"filter_scores"`
		ImageIDs       []int32     `json:"image_ids"`
		Labels, Clean  []float64
		Random         [][]float64
		State          map[string]float64
		URows          []float64 `json:"u_rows"`
		UColumns       []float64 `json:"u_columns"`
		Metric         [][]float64
		NegCaptions    []int `json:"caption_per_image"`
		NegImages      []int `json:"image_per_caption"`
	}
	Params   map[string]float64
	Expected struct {
		Loss           *float64
		LossCaption    *float64           `json:"loss_caption_retrieval"`
		LossImage      *float64           `json:"loss_image_retrieval"`
		CostS          [][]float64        `json:"cost_s"`
		CostIm         [][]float64        `json:"cost_im"`
		Grad           [][]float64        `json:"grad_scores"`
		GradParams     map[string]float64 `json:"grad_params"`
		HardCaption    []int32            `json:"hard_caption_index_per_image"`
		HardImage      []int32            `json:"hard_image_index_per_caption"`
		Margins        [][]float64        `json:"margin_matrix"`
		Scores         [][]float64
		GradImages     [][]float64 `json:"grad_image_emb"`
		GradCaptions   [][]float64 `json:"grad_caption_emb"`
		Anchors        [][]any
		StateAfter     map[string]float64 `json:"state_after"`
		WeightsRows    [][]float64        `json:"weights_rows"`
		WeightsColumns [][]float64        `json:"weights_columns"`
		Predicted      []float64          `json:"predicted_clean"`
	}
}

func flat(rows [][]float64) []float64 { return slices.Concat(rows...) }

func (c *lossCase) options(t *testing.T) Options {
	o := DefaultOptions()
	switch c.Type {
	case "LSH":
		o.Name = LSH
	case "LMH":
		o.Name = LMH
	case "LSEH":
		o.Name, o.Margin, o.LSEH.Lambda, o.LSEH.Similarity = LSEH, c.Alpha, c.Lam, c.Similarity
	case "LUWM":
		o.Name, o.LUWM.Positive, o.LUWM.Negative = LUWM, c.Pos, c.Neg
	case "InfoNCE":
		own := infoNCEOptions{Temperature: c.Config.Temperature, Learn: "nothing", Targets: c.Config.Targets}
		for name := range c.Params {
			own.Learn = name
		}
		o.Name, o.Own[infoNCEConstants.at] = "infonce", own
	case "SigLIP":
		o.Name = "siglip"
	case "RCL":
		own := rclOptions{c.Config.Tau, strings.ToLower(c.Config.Method), c.Config.Q, c.Config.Ratio}
		if own.Ratio < 0 {
			own.Ratio = 1
		}
		o.Name, o.Own[rclConstants.at] = "rcl", own
	case "CRCL":
		o.Name, o.Own[crclConstants.at] = "crcl", crclOptions{Temperature: c.Config.Tau, Correction: true}
		c.Config.MaxViolation = new(bool) // the warm-up form has the labels as they are
	case "FNE":
		o.Name, o.Margin = "fne", c.Config.Margin
		c.Expected.HardCaption = nil
	case "SAM":
		o.Name = "sam"
		o.Own[samConstants.at] = samOptions{c.Config.Weight, c.Config.Divisor, "random", c.Config.Margins}
	case "DECL":
		o.Name, o.Margin = "decl", c.Config.Margin
		o.Own[declConstants.at] = declOptions{c.Config.Tau, c.Config.Lambda1, c.Config.Lambda2}
	case "SelHN":
		o.Name, o.Margin = "selhn", c.Config.Margin
		o.Own[selHNConstants.at] = selHNOptions{c.Config.Epsilon}
	case "SoftLabels": // the part beside the cross entropy
		o.Name = "softlabels"
		own := softLabelsOptions{Weight: c.Config.Weight, Temperature: c.Config.Temperature,
			TeacherTemperature: c.Config.TeacherTemperature}
		_, own.Learn = c.Params["temperature"]
		if t := c.Params["teacher_temperature"]; t > 0 {
			own.TeacherTemperature = t
		}
		o.Own[softLabelsConstants.at] = own
	case "LMH-relative":
		o.Name, o.Margin = "relative", c.Config.Margin
		o.Own[relativeConstants.at] = relativeOptions{"scores", c.Config.Filter, c.Config.Rho, c.Config.FilterMargin}
		c.Expected.HardCaption = nil // of the kept ones; what is logged is LMH's
	default: // the name of a loss, with its options by their keys
		if !slices.Contains(Names(), c.Type) {
			t.Fatalf("unknown loss %q", c.Type)
		}
		o.Name = c.Type
		c.setOwn(t, &o)
	}
	if c.Margin != nil {
		o.Margin = *c.Margin
	}
	return o
}

// setOwn sets the margin and the options of the loss's own section to what the case names by their keys.
func (c *lossCase) setOwn(t *testing.T, o *Options) {
	var config struct{ Config map[string]any }
	try.Do(t, json.Unmarshal(c.raw, &config))
	if margin, ok := config.Config["margin"].(float64); ok {
		o.Margin = margin
		delete(config.Config, "margin")
	}
	for i, s := range sections {
		if s.key != o.Name {
			continue
		}
		for _, f := range options.Fields(reflect.TypeOf(s.defaults)) {
			if key, ok := options.Key(f); ok && config.Config[key] != nil {
				options.Set(reflect.ValueOf(&o.Own).Elem(), append([]int{i}, f.Index...),
					reflect.ValueOf(config.Config[key]).Convert(f.Type))
				delete(config.Config, key)
			}
		}
	}
	for key := range config.Config {
		t.Fatalf("%s: the loss %s has no option %s", c.Name, o.Name, key)
	}
}

// A loss has a row in the table of docs/losses.md and cases of its reference.
func TestEveryLossIsDescribedAndProved(t *testing.T) {
	proved := map[string]bool{}
	for _, c := range lossCases(t) {
		if c.Type != "" {
			o := c.options(t)
			proved[o.Name] = true
		}
	}
	page := string(try.Get(os.ReadFile("../docs/losses.md"))(t))
	for _, name := range Names() {
		if !strings.Contains(page, "\n| `"+name+"`, ") {
			t.Errorf("docs/losses.md has no row for %s in its table", name)
		}
		if !proved[name] {
			t.Errorf("testdata/golden has no case of %s: scripts/golden_loss.py writes them", name)
		}
	}
}

// definition names the device that defines what the kernels of all others compute.
const definition = "definition"

// Every loss through the real graph and executor: value, parts, margins, hard negatives and all gradients.
func TestGoldenLosses(t *testing.T) {
	for _, c := range lossCases(t) {
		for _, p := range []struct {
			precision string
			out, grad golden.Tolerance
		}{{cpu.FP64, golden.FP64, golden.FP64}, {cpu.FP32, golden.FP32, golden.FP32Grad},
			{definition, golden.FP64, golden.FP64}} {
			t.Run(c.Name+"/"+p.precision, func(t *testing.T) {
				var dev device.Device = definitions.Over(reference.New())
				if p.precision != definition {
					dev = try.Get(cpu.New(cpu.Options{Threads: 2, Precision: p.precision}))(t)
				}
				defer dev.Close()
				if c.Type == "" {
					c.checkOrder(t, dev, p.out)
					return
				}
				c.check(t, dev, p.out, p.grad)
			})
		}
	}
}

// lossCases are the cases of losses.
func lossCases(t *testing.T) (list []*lossCase) {
	var file, more struct{ Cases []json.RawMessage }
	golden.Load(t, "losses.json", &file)
	golden.Load(t, "losses_more.json", &more)
	for _, raw := range append(file.Cases, more.Cases...) {
		var kind struct {
			Type string `json:"loss_type"`
		}
		try.Do(t, json.Unmarshal(raw, &kind))
		if slices.Contains(unwritten, kind.Type) {
			continue
		}
		c := &lossCase{raw: raw}
		try.Do(t, json.Unmarshal(raw, c))
		list = append(list, c)
	}
	return list
}

// unwritten are the types of losses_more.json that other tests compare with.
var unwritten = []string{"noise", "mixture", "clamp", "FNE-state", "CRCL-state"}

func (c *lossCase) check(t *testing.T, dev device.Device, outTol, gradTol golden.Tolerance) {
	o := c.options(t)
	learned := o.Learned()
	var specs []graph.ParamSpec
	for _, l := range learned {
		specs = append(specs, graph.ParamSpec{Name: "loss." + l.Name, Shape: []int{1}})
	}
	s := try.Get(graph.NewInstance(dev, specs))(t)
	param := func(l Learned) string { // in the case
		if l.Name == "label_temperature" {
			return "temperature"
		}
		return l.Name
	}
	for _, l := range learned {
		start := l.Start
		if v, ok := c.Params[param(l)]; ok {
			start = v
		}
		dev.UploadDoubles(s.Params.Value("loss."+l.Name), []float64{start})
	}
	g := s.Graph()
	var scores *graph.Node
	var wrt []*graph.Node
	wants := [][]float64{flat(c.Expected.Grad)}
	feed := func(name string, rows [][]float64) *graph.Node {
		try.Do(t, s.FeedDoubles(name, flat(rows)))
		return g.Input(name, len(rows), len(rows[0]))
	}
	if c.Scores != nil {
		scores = feed("scores", c.Scores)
		wrt = []*graph.Node{scores}
	} else {
		im, cap := feed("images", c.ImageEmb), feed("captions", c.CaptionEmb)
		scores = g.MatMulT(im, cap, true)
		wrt = []*graph.Node{im, cap}
		wants = [][]float64{flat(c.Expected.GradImages), flat(c.Expected.GradCaptions)}
	}
	n := graph.Dim(scores, 0)
	var ctx Context
	if c.Inputs.TeacherVectors != nil {
		ctx.Semantics = feed("teacher", c.Inputs.TeacherVectors)
	} else if len(c.Semantics) > 0 {
		ctx.Semantics = feed("semantics", c.Semantics)
		ctx.Images = g.InputInts("image ids", n)
		ctx.Captions = ctx.Images
		try.Do(t, s.FeedInts("image ids", c.ImageIDs))
		if c.Divisor > 0 { // the released rule divides caption indices, whatever the data set
			of := make([]int32, n)
			for i, id := range c.CaptionIDs {
				of[i] = id / c.Divisor
			}
			ctx.Captions = g.InputInts("caption ids", n)
			try.Do(t, s.FeedInts("caption ids", of))
		}
	}
	if c.Inputs.ImageIDs != nil {
		ctx.Images = g.InputInts("image ids", n)
		ctx.Captions = ctx.Images
		try.Do(t, s.FeedInts("image ids", c.Inputs.ImageIDs))
	}
	c.feedInputs(t, s)
	var remembered, weights []*graph.Node
	ctx.Remember = func(values ...*graph.Node) { remembered = values }
	own := softLabelsConstants.of(&o)
	var l, margins *graph.Node
	var prog *graph.Program
	var grads []*graph.Node
	try.Do(t, graph.Build(func() (err error) {
		retain := []*graph.Node{scores}
		sum := !c.MaxViolation && o.Name == LSEH || c.Config.MaxViolation != nil && !*c.Config.MaxViolation
		switch {
		case c.Inputs.FilterScores != nil:
			l = guided(o, g, scores, feed("guide", c.Inputs.FilterScores), sum)
		case c.Inputs.Metric == nil:
			l = o.Build(g, scores, ctx, sum)
		default:
			rows, columns := semanticHinges(samConstants.of(&o), g, scores, feed("metric", c.Inputs.Metric))
			l = fromCosts(g, "sam alone", 0, scores, rows, columns)
		}
		if o.Name == "fne" {
			d, apart, found := g.StopGradient(scores), different(g, ctx, n), statisticsOf(g, ctx,
				g.StopGradient(scores))
			costs := violations(g, d, matches(g, d), o.Margin)
			others := violations(g, g.SwapAxes(d), matches(g, d), o.Margin)
			weights = []*graph.Node{found.weights(g, d, g.Multiply(costs, apart), apart, o.Margin),
				found.weights(g, g.SwapAxes(d), g.Multiply(others, apart), apart, o.Margin)}
		}
		if c.Inputs.TeacherVectors != nil {
			cost := func(scores *graph.Node) *graph.Node {
				return g.Scale(divergence(own, g, scores, ctx), own.Weight*0.5/float64(n))
			}
			l = fromCosts(g, "soft labels alone", 0, scores, cost(scores), cost(g.SwapAxes(scores)))
		}
		if o.HasMargins() {
			margins = o.Margins(g, ctx, n)
			retain = append(retain, margins)
		}
		for _, p := range learned {
			if node := g.Lookup("loss." + p.Name); node != nil && c.Params[param(p)] != 0 {
				wrt, wants = append(wrt, node), append(wants, []float64{c.Expected.GradParams[param(p)]})
			}
		}
		if grads, err = g.Gradients(l, wrt...); err != nil {
			return err
		}
		prog, err = graph.Compile(s, g, slices.Concat(retain, []*graph.Node{l}, grads, remembered, weights), nil)
		return err
	}))
	try.Do(t, prog.RunAll())
	parts := prog.Doubles(l)
	golden.Close(t, "loss", parts[:1], []float64{*c.Expected.Loss}, outTol)
	if c.Expected.LossCaption != nil {
		golden.Close(t, "parts", parts[1:], []float64{*c.Expected.LossCaption, *c.Expected.LossImage}, outTol)
	}
	for i, want := range [][][]float64{c.Expected.WeightsRows, c.Expected.WeightsColumns} {
		if want != nil {
			golden.Close(t, "weights", prog.Doubles(weights[i]), flat(want), outTol)
		}
	}
	c.checkRemembered(t, prog, remembered, outTol)
	if c.Expected.Scores != nil {
		golden.Close(t, "scores", prog.Doubles(scores), flat(c.Expected.Scores), outTol)
	}
	for i, want := range wants {
		golden.Close(t, wrt[i].Name()+" gradient", prog.Doubles(grads[i]), want, gradTol)
	}
	if c.Expected.Margins != nil {
		golden.Close(t, "margins", prog.Doubles(margins), flat(c.Expected.Margins), outTol)
	}
	if c.Expected.HardCaption != nil || c.Expected.Anchors != nil {
		c.checkHard(t, dev, prog, l, n, outTol)
	}
}

// feedInputs feeds what the memory of a loss would: the random numbers and the state of the case.
func (c *lossCase) feedInputs(t *testing.T, s *graph.Instance) {
	n := len(c.Scores)
	inputs := map[string][]float64{inputLabels: c.Inputs.Labels, inputRight: c.Inputs.Clean,
		inputDrawRows: c.Inputs.URows, inputDrawColumns: c.Inputs.UColumns}
	if c.Inputs.Random != nil {
		inputs[inputKept] = keptNegatives(flat(c.Inputs.Random), n, c.Config.Ratio)
	}
	if c.Inputs.NegCaptions != nil {
		inputs[inputNegativeCaptions], inputs[inputNegativeImages] = oneHot(c.Inputs.NegCaptions),
			oneHot(c.Inputs.NegImages)
	}
	if k := c.Config.HardNegatives; k > 0 {
		pool := make([]float64, n*n)
		for i := range k {
			pool[i] = 1 / float64(k)
		}
		inputs[inputPool] = pool
	}
	if c.Inputs.State != nil {
		inputs[inputSums] = sumsOf(c.Inputs.State)
	}
	for name, values := range inputs {
		if values == nil {
			continue
		}
		try.Do(t, s.FeedDoubles(name, values))
	}
}

func sumsOf(state map[string]float64) []float64 {
	return []float64{state["pos_sum"], state["pos_count"], state["neg_sum"], state["pos_square"], state["neg_square"]}
}

// checkRemembered compares what the memory of a loss takes.
func (c *lossCase) checkRemembered(t *testing.T, prog *graph.Program, nodes []*graph.Node, tol golden.Tolerance) {
	got := doubles(prog, nodes)
	if c.Expected.StateAfter != nil {
		m := fneMemory{sumsOf(c.Inputs.State)}
		m.Take(&Batch{Iter: 1}, got)
		golden.Close(t, "state", m.sums, sumsOf(c.Expected.StateAfter), tol)
	}
	if c.Expected.Predicted != nil {
		golden.Close(t, "pairs that count as right", got, c.Expected.Predicted, tol)
	}
}

// hard returns the hardest caption of every image, the hardest image of every caption, and their costs.
func (c *lossCase) hard(n int) (index [2][]int32, cost [2][]float64) {
	for k := range cost {
		index[k], cost[k] = make([]int32, n), make([]float64, n)
	}
	for _, a := range c.Expected.Anchors { // of LUWM: ["row", anchor, index, positive term, negative term]
		if len(a) < 5 {
			continue // with the reason why there is none in place of the index
		}
		k, i := slices.Index([]string{"row", "col"}, a[0].(string)), int(a[1].(float64))
		index[k][i], cost[k][i] = int32(a[2].(float64)), a[4].(float64)
	}
	if c.Expected.HardCaption != nil {
		index = [2][]int32{c.Expected.HardCaption, c.Expected.HardImage}
		for i := range n {
			for j := range n {
				cost[0][i] = max(cost[0][i], c.Expected.CostS[i][j])
				cost[1][j] = max(cost[1][j], c.Expected.CostIm[i][j])
			}
		}
	}
	return index, cost
}

func (c *lossCase) checkHard(t *testing.T, dev device.Device, prog *graph.Program, l *graph.Node, n int,
	tol golden.Tolerance) {
	index, cost := c.hard(n)
	for k, saved := range [][2]int{{HardCaption, CostCaption}, {HardImage, CostImage}} {
		got, costs := make([]int32, n), make([]float64, n)
		dev.DownloadInts(got, prog.Saved(l, saved[0]))
		if !slices.Equal(got, index[k]) {
			t.Errorf("hard negatives %v, want %v", got, index[k])
		}
		dev.DownloadDoubles(costs, prog.Saved(l, saved[1]))
		golden.Close(t, "hinge of the hard negatives", costs, cost[k], tol)
	}
}

func (c *lossCase) checkOrder(t *testing.T, dev device.Device, tol golden.Tolerance) {
	s := try.Get(graph.NewInstance(dev, nil))(t)
	g := s.Graph()
	im := g.Input("images", len(c.ImageEmb), len(c.ImageEmb[0]))
	cap := g.Input("captions", len(c.CaptionEmb), len(c.CaptionEmb[0]))
	scores := g.OrderScores(im, cap)
	prog := try.Get(graph.Compile(s, g, []*graph.Node{scores}, nil))(t)
	try.Do(t, s.FeedDoubles("images", flat(c.ImageEmb)))
	try.Do(t, s.FeedDoubles("captions", flat(c.CaptionEmb)))
	try.Do(t, prog.RunAll())
	golden.Close(t, "order scores", prog.Doubles(scores), flat(c.Expected.Scores), tol)
}

package models

import (
	"strings"
	"testing"

	"vsetrain/internal/compute/graph"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
)

type sgrafCase struct {
	Name   string
	Config struct {
		Module   string
		Training bool
		Steps    int `json:"sgr_steps"`
		Regions  int
		ImgDim   int `json:"img_dim"`
		Embed    int
		SimDim   int `json:"sim_dim"`
		Vocab    int
		WordDim  int `json:"word_dim"`
	}
	Lengths      []int32
	Captions     golden.Tensor
	Inputs       struct{ Images golden.Tensor }
	ParamsImage  map[string]golden.Tensor `json:"params_image"`
	ParamsText   map[string]golden.Tensor `json:"params_text"`
	ParamsSim    map[string]golden.Tensor `json:"params_sim"`
	RunningStats map[string]golden.Tensor `json:"running_stats"`
	LossWeights  golden.Tensor            `json:"loss_weights"`
	Expected     struct {
		ImageEmb     golden.Tensor `json:"image_emb"`
		TextEmb      golden.Tensor `json:"text_emb"`
		Scores       golden.Tensor
		Loss         float64
		RunningStats map[string]golden.Tensor `json:"new_running_stats"`
		GradsImage   map[string]golden.Tensor `json:"grads_image"`
		GradsText    map[string]golden.Tensor `json:"grads_text"`
		GradsSim     map[string]golden.Tensor `json:"grads_sim"`
	}
}

// SAF and SGR whole, in training and in evaluation: embeddings, scores, loss, running statistics and every gradient.
func TestGoldenSGRAF(t *testing.T) {
	var file struct{ Cases []sgrafCase }
	golden.Load(t, "sgraf.json", &file)
	for _, c := range file.Cases {
		for _, p := range offGPU {
			t.Run(c.Name+" "+p.name, func(t *testing.T) { c.run(t, p) })
		}
	}
}

func (c *sgrafCase) run(t *testing.T, p precision) {
	cfg := c.Config
	n, l := len(c.Lengths), c.Captions.Shape[1]
	order := golden.ByLength(c.Lengths)
	words, lengths := golden.Rows(ints(c.Captions.Data), l, order), golden.Rows(c.Lengths, 1, order)
	o := DefaultOptions()
	o.Network, o.TextEncoder, o.EmbedDim, o.WordDim = strings.ToLower(cfg.Module), "bigru", cfg.Embed, cfg.WordDim
	o.SGRAF = SGRAFOptions{SimDim: cfg.SimDim, Steps: max(1, cfg.Steps)}
	m, err := NewModel(newDevice(t, p.name), o, Dims{Regions: cfg.Regions, Feature: cfg.ImgDim, Vocab: cfg.Vocab})
	try.Do(t, err)
	setParams(t, m, "img", c.ParamsImage)
	setParams(t, m, "txt", c.ParamsText)
	setParams(t, m, "sim", c.ParamsSim)
	try.Do(t, m.Instance.Params.AllocGrads())
	net, _ := m.PairScorer()
	g := m.Instance.Graph()
	g.Training = cfg.Training
	feeder := NewFeeder(m, nil, false)
	captions := m.CaptionInputs(g, n, Bucket(l), feeder.PairCapacity(lengths, l))
	im, txt := net.Images(g, m.ImageInputs(g, n)), net.Words(g, captions)
	scores := net.Pairs(g, im, txt)
	loss := g.WeightedSum(scores, g.Input("weights", n, n))
	var wrt []*graph.Node
	var params []string
	for _, p := range m.Network.Params() {
		if !p.State {
			wrt, params = append(wrt, p.Node(g)), append(params, p.Name)
		}
	}
	grads := try.Get(g.Gradients(loss, wrt...))(t)
	prog, err := graph.Compile(m.Instance, g, append([]*graph.Node{im.Values[0], txt.Words[0], scores, loss}, grads...),
		nil)
	try.Do(t, err)
	try.Do(t, m.Instance.FeedDoubles(InputRegions, c.Inputs.Images.Data))
	try.Do(t, m.Instance.FeedDoubles("weights", golden.Columns(c.LossWeights.Data, n, order)))
	try.Do(t, feeder.Captions(captionBatch(words, lengths, l)))
	for range 2 { // a second run must see nothing of the first but the running statistics
		stats := map[string]golden.Tensor{}
		for name, v := range c.RunningStats {
			stats[name] = v
		}
		setParams(t, m, "sim", stats)
		try.Do(t, prog.RunAll())
	}
	golden.Close(t, "image embeddings", prog.Doubles(im.Values[0]), c.Expected.ImageEmb.Data, p.out)
	at, all, e := 0, prog.Doubles(txt.Words[0]), cfg.Embed
	for i, item := range order {
		size := int(lengths[i]) * e
		want := c.Expected.TextEmb.Data[item*l*e:]
		golden.Close(t, "words", all[at:at+size], want[:size], p.out)
		at += size
	}
	golden.Close(t, "scores", prog.Doubles(scores), golden.Columns(c.Expected.Scores.Data, n, order), p.out)
	golden.Close(t, "loss", prog.Doubles(loss), []float64{c.Expected.Loss}, p.out)
	stats := c.Expected.RunningStats
	if !cfg.Training {
		stats = c.RunningStats // which evaluation leaves as they are
	}
	if len(stats) == 0 {
		t.Fatal("the case has no running statistics")
	}
	for name, want := range stats {
		got := make([]float64, len(want.Data))
		m.Instance.Dev.DownloadDoubles(got, m.Instance.Params.Value("sim."+name))
		golden.Close(t, name, got, want.Data, p.out)
	}
	want := map[string]golden.Tensor{}
	for part, grads := range map[string]map[string]golden.Tensor{"img.": c.Expected.GradsImage,
		"txt.": c.Expected.GradsText, "sim.": c.Expected.GradsSim} {
		for name, v := range grads {
			want[part+name] = v
		}
	}
	for i, name := range params {
		if _, ok := want[name]; !ok {
			t.Fatalf("the case has no gradient of %s", name)
		}
		golden.Close(t, name+" gradient", prog.Doubles(grads[i]), want[name].Data, p.grad)
	}
	if len(want) != len(params) {
		t.Errorf("the case has %d gradients, the network %d", len(want), len(params))
	}
}

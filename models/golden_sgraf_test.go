package models

import (
	"strings"
	"testing"

	"vsetrain/lab/golden"
)

type sgrafCase struct {
	Name   string
	Config struct {
		Module   string
		Training bool
		Steps    int `json:"sgr_steps"`
		Embed    int
		SimDim   int `json:"sim_dim"`
		Vocab    int
		WordDim  int `json:"word_dim"`
	}
	partedInputs
	Expected partedResults
}

// SAF and SGR whole, in training and in evaluation: embeddings, scores, loss, running statistics and every gradient.
func TestGoldenSGRAF(t *testing.T) {
	var file struct{ Cases []sgrafCase }
	golden.Load(t, "sgraf.json", &file)
	for _, c := range file.Cases {
		cfg, o := c.Config, DefaultOptions()
		o.Network, o.TextEncoder, o.EmbedDim, o.WordDim = strings.ToLower(cfg.Module), "bigru", cfg.Embed, cfg.WordDim
		o.SGRAF = SGRAFOptions{SimDim: cfg.SimDim, Steps: max(1, cfg.Steps)}
		n := c.network(&c.Expected, cfg.Vocab)
		if n.evaluation = !cfg.Training; n.evaluation {
			n.newStats = n.stats // evaluation leaves them as they are
		}
		if len(n.newStats) == 0 {
			t.Fatal("the case has no running statistics")
		}
		for _, p := range everywhere {
			t.Run(c.Name+" "+p.name, func(t *testing.T) { n.run(t, o, p) })
		}
	}
}

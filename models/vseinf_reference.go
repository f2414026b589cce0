package models

import "fmt"

func init() {
	formats[VSEInf] = format{matches: isVSEInf, read: readVSEInf, options: vseinfReferenceOptions, recalls: 6}
}

// isVSEInf reports whether the state dicts are those of VSE-infinity in region mode: a linear layer and a perceptron on the regions,
// and the pooling operator on both sides.
func isVSEInf(r *Reference) bool {
	return len(r.states) == 2 && r.has(0, "fc.weight", 2) && r.has(0, "mlp.layers.0.weight", 2) && r.has(0, "gpool.linear.weight", 2) &&
		r.has(1, "gpool.linear.weight", 2)
}

func readVSEInf(r *Reference, _ map[string]any) error {
	if !r.has(1, "embed.weight", 2) || !r.has(1, "rnn.weight_hh_l0_reverse", 2) {
		return fmt.Errorf("a VSE-infinity checkpoint without a bidirectional GRU in its text encoder; supported is the text encoder of the bigru branch")
	}
	o := &r.options
	fc, embed := r.states[0]["fc.weight"], r.states[1]["embed.weight"]
	if embed.Shape[0] < 2 {
		return fmt.Errorf("word vectors of %d words, expected at least one and <mask>", embed.Shape[0])
	}
	o.TextEncoder, o.EmbedDim, o.WordDim = "bigru", fc.Shape[0], embed.Shape[1]
	r.dims = Dims{Regions: usualRegions, Feature: fc.Shape[1], Vocab: embed.Shape[0] - 1} // without <mask>; no weight depends on the regions
	return nil
}

// vseinfReferenceOptions are those of woodfrog/vse_infty, lib/arguments.py.
func vseinfReferenceOptions(m *Model) map[string]any {
	return map[string]any{
		"embed_size": m.Options.EmbedDim, "word_dim": m.Options.WordDim, "img_dim": m.Dims.Feature, "vocab_size": m.Dims.Vocab + 1,
		"num_layers": 1, "precomp_enc_type": "basic", "backbone_source": "detector", "no_imgnorm": false, "no_txtnorm": false,
		"margin": 0.2, "max_violation": true, "grad_clip": 2.0, "num_epochs": 25, "batch_size": 128, "learning_rate": 0.0005, "lr_update": 15,
		"vse_mean_warmup_epochs": 1, "val_step": 500, "log_step": 200, "workers": 10, "data_path": "data/f30k", "data_name": "f30k",
		"logger_name": "runs/runX", "model_name": "runs/runX",
	}
}

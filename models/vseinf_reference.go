package models

import (
	"fmt"
	"maps"
	"slices"
)

func init() {
	formats[VSEInf] = format{matches: func(r *Reference) bool { return len(r.states) == 2 && isVSEInf(r) },
		read: readBertOrBiGRU, options: vseinfReferenceOptions, recalls: 6,
		unsupported: []string{"no_imgnorm", "no_txtnorm"}, prefix: vseinfPrefix}
}

// isVSEInf reports whether the state dicts are the ones of VSE-infinity in region mode: a linear layer and a perceptron
// on the regions, and the pooling operator on both sides.
func isVSEInf(r *Reference) bool {
	return r.has(0, "fc.weight", 2) && r.has(0, "mlp.layers.0.weight", 2) &&
		r.has(0, "gpool.linear.weight", 2) &&
		r.has(1, "gpool.linear.weight", 2)
}

// vseinfPrefix: the repository's loader of the BERT network expects names of modules wrapped for data parallelism and
// ignores others.
func vseinfPrefix(m *Model) string {
	if m.Options.TextEncoder == TextBert {
		return "module."
	}
	return ""
}

// readBertOrBiGRU finds the sizes of a network with BERT, or with a BiGRU whose last word vector is the vector of
// <mask>.
func readBertOrBiGRU(r *Reference) error {
	if r.has(1, "bert."+bertWords, 2) {
		return readBert(r)
	}
	if !r.has(1, "embed.weight", 2) || !r.has(1, "rnn.weight_hh_l0_reverse", 2) {
		return fmt.Errorf("a %s checkpoint with neither a bidirectional GRU nor BERT in its text encoder",
			r.options.Traits().Title)
	}
	o := &r.options
	fc, embed := r.states[0]["fc.weight"], r.states[1]["embed.weight"]
	if embed.Shape[0] < 2 {
		return fmt.Errorf("word vectors of %d words, expected at least one and <mask>", embed.Shape[0])
	}
	o.TextEncoder, o.EmbedDim, o.WordDim = "bigru", fc.Shape[0], embed.Shape[1]
	// without <mask>; no weight depends on the regions
	r.dims = Dims{Regions: usualRegions, Feature: fc.Shape[1], Vocab: embed.Shape[0] - 1}
	return nil
}

// headSize is the size of a head of BERT, and publishedHidden are the hidden states that it was published with.
const headSize = 64

var publishedHidden = []int{128, 256, 512, 768, 1024}

// readBert finds the sizes of a network with BERT.
func readBert(r *Reference) error {
	fc, words, state := r.states[0]["fc.weight"], r.states[1]["bert."+bertWords], r.states[1]
	o := &r.options
	o.TextEncoder, o.EmbedDim, o.Bert.Hidden = TextBert, fc.Shape[0], words.Shape[1]
	if o.Bert.Layers = 0; r.has(1, "bert.embeddings.position_embeddings.weight", 2) {
		o.Bert.Positions = state["bert.embeddings.position_embeddings.weight"].Shape[0]
	}
	for r.has(1, fmt.Sprintf("bert.encoder.layer.%d.intermediate.dense.weight", o.Bert.Layers), 2) {
		o.Bert.Intermediate = state[fmt.Sprintf("bert.encoder.layer.%d.intermediate.dense.weight",
			o.Bert.Layers)].Shape[0]
		o.Bert.Layers++
	}
	if o.Bert.Layers == 0 {
		return fmt.Errorf("BERT without a layer: no tensor bert.encoder.layer.0.intermediate.dense.weight")
	}
	o.Bert.Heads = o.Bert.Hidden / headSize // where the option does not tell
	const option, key = "num_attention_heads", "bert.heads"
	if !slices.Contains(publishedHidden, o.Bert.Hidden) && r.opt[option] == nil && r.given[key] == nil {
		if o.Bert.Hidden%headSize != 0 {
			return fmt.Errorf("BERT of hidden size %d, which heads of %d do not divide, and no option %s; "+
				"give their number with --set %s%s=N", o.Bert.Hidden, headSize, option, modelSection, key)
		}
		r.assume("option "+option+" is missing", key, o.Bert.Heads)
	}
	r.dims = Dims{Regions: usualRegions, Feature: fc.Shape[1], Vocab: words.Shape[0]}
	return nil
}

// vseinfReferenceOptions are the options of woodfrog/vse_infty, arguments.py, on its branches master (BERT) and bigru.
func vseinfReferenceOptions(m *Model) map[string]any {
	o := commonOptions(m)
	maps.Copy(o, map[string]any{
		"img_dim": m.Dims.Feature, "vocab_size": m.Dims.Vocab + 1, "no_txtnorm": false, "data_path": "data/f30k",
		"data_name":  "f30k",
		"model_name": "runs/runX", "num_epochs": 25, "learning_rate": 0.0005, "log_step": 200, "optim": "adam",
		"vse_mean_warmup_epochs": 1, "embedding_warmup_epochs": 2, "reset_start_epoch": false,
		"precomp_enc_type": "basic",
		"backbone_source":  "detector", "backbone_path": "", "backbone_warmup_epochs": 5, "backbone_lr_factor": 0.01,
		"input_scale_factor": 1.0,
	})
	if m.Options.TextEncoder == TextBert {
		o["vocab_size"] = m.Dims.Vocab
	}
	return o
}

package models

import (
	"fmt"
	"slices"
)

func init() {
	formats[VSEInf] = format{matches: func(r *Reference) bool { return len(r.states) == 2 && isVSEInf(r) },
		read: readBertOrBiGRU, options: vseinfReferenceOptions, recalls: 6,
		unsupported: []string{"no_imgnorm", "no_txtnorm"}, prefix: vseinfPrefix}
}

// isVSEInf reports whether the state dicts may be VSE-infinity's in region mode: a linear layer and a perceptron on the
// regions, and the pooling operator on both sides.
func isVSEInf(r *Reference) bool {
	return r.has(0, "fc.weight", 2) && r.has(0, "mlp.layers.0.weight", 2) && r.has(0, "gpool.linear.weight", 2) &&
		r.has(1, "gpool.linear.weight", 2)
}

// vseinfPrefix returns the prefix of tensor names. The repository's loader of the BERT network ignores names without
// the wrapper of data parallelism.
func vseinfPrefix(m *Model) string {
	if m.Options.TextEncoder == TextBert {
		return "module."
	}
	return ""
}

// readBertOrBiGRU finds the sizes of a network with BERT, or with a BiGRU whose last word is <mask>.
func readBertOrBiGRU(r *Reference) error {
	if r.has(1, "bert."+bertWords, 2) {
		return readBert(r)
	}
	if !r.has(1, "embed.weight", 2) || !r.has(1, "rnn.weight_hh_l0_reverse", 2) {
		return fmt.Errorf("a %s checkpoint with neither a bidirectional GRU nor BERT in its text encoder",
			r.options.Traits().Title)
	}
	r.readSizes("bigru")
	if r.dims.Vocab < 2 {
		return fmt.Errorf("word vectors of %d words, expected at least one and <mask>", r.dims.Vocab)
	}
	r.dims.Vocab-- // without <mask>
	return nil
}

// headSize is the size of an attention head of BERT, and publishedHidden are its published hidden sizes.
const headSize = 64

var publishedHidden = []int{128, 256, 512, 768, 1024}

// readBert finds the sizes of a network with BERT.
func readBert(r *Reference) error {
	fc, words, state := r.states[0]["fc.weight"], r.states[1]["bert."+bertWords], r.states[1]
	r.options.TextEncoder, r.options.EmbedDim = TextBert, fc.Shape[0]
	o := &r.options.Bert
	o.Hidden, o.Layers = words.Shape[1], 0
	if positions := "bert.embeddings.position_embeddings.weight"; r.has(1, positions, 2) {
		o.Positions = state[positions].Shape[0]
	}
	inner := func() string { return fmt.Sprintf("bert.encoder.layer.%d.intermediate.dense.weight", o.Layers) }
	for ; r.has(1, inner(), 2); o.Layers++ {
		o.Intermediate = state[inner()].Shape[0]
	}
	if o.Layers == 0 {
		return fmt.Errorf("BERT without a layer: no tensor %s", inner())
	}
	o.Heads = o.Hidden / headSize // unless the option tells
	const option, key = "num_attention_heads", "bert.heads"
	if !slices.Contains(publishedHidden, o.Hidden) && r.opt[option] == nil && r.given[key] == nil {
		if o.Hidden%headSize != 0 {
			return fmt.Errorf("BERT of hidden size %d, which heads of %d do not divide, and no option %s; "+
				"give their number with --set %s%s=N", o.Hidden, headSize, option, modelSection, key)
		}
		r.assume("option "+option+" is missing", key, o.Heads)
	}
	r.dims = Dims{Regions: usualRegions, Feature: fc.Shape[1], Vocab: words.Shape[0]}
	return nil
}

// vseinfReferenceOptions are the options of woodfrog/vse_infty, arguments.py, on its branches master (BERT) and bigru.
func vseinfReferenceOptions(m *Model) map[string]any {
	return with(boxOptions(m), map[string]any{"data_path": "data/f30k", "data_name": "f30k",
		"embedding_warmup_epochs": 2, "reset_start_epoch": false, "precomp_enc_type": "basic",
		"backbone_source": "detector", "backbone_path": "", "backbone_warmup_epochs": 5, "backbone_lr_factor": 0.01})
}

// boxOptions are the options that woodfrog/vse_infty and ppanzx/CHAN share. Their "adam" is AdamW (lib/model.py).
func boxOptions(m *Model) map[string]any {
	vocab := m.Dims.Vocab
	if m.Options.TextEncoder != TextBert {
		vocab++ // <mask>
	}
	return with(commonOptions(m), map[string]any{"img_dim": m.Dims.Feature, "vocab_size": vocab, "no_txtnorm": false,
		"model_name": "runs/runX", "num_epochs": 25, "learning_rate": 0.0005, "log_step": 200, "optim": "adam",
		"vse_mean_warmup_epochs": 1, "input_scale_factor": 1.0})
}

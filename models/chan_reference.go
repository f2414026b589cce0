package models

import "maps"

// The checkpoints of ppanzx/CHAN: four state dicts, of images, text, similarity and loss, the last two empty. What does
// not follow from the tensors comes from the options, under the repository's names. Two are our own additions: the
// repository has 8 heads (region_attention_heads) and attends across the batch (transformer_axis).
func init() {
	formats[CHAN] = format{matches: isCHAN, read: readCHAN, options: chanReferenceOptions, recalls: 6,
		unsupported: []string{"no_txtnorm"}}
}

// chanReferenceOptions are the options of ppanzx/CHAN, arguments.py and train.py.
func chanReferenceOptions(m *Model) map[string]any {
	c, o := m.Options.CHAN, commonOptions(m)
	maps.Copy(o, map[string]any{
		"img_dim": m.Dims.Feature, "vocab_size": m.Dims.Vocab + 1, "no_txtnorm": false,
		"precomp_enc_type": c.ImageEncoder, "text_enc_type": m.Options.TextEncoder,
		"criterion": "ContrastiveLoss", "temperature": 0.05, "obj_drop_rate": 0.2, "wemb_type": nil, "num_epochs": 25,
		"batch_size": 128, "learning_rate": 0.0005, "log_step": 200, "margin": 0.05, "vse_mean_warmup_epochs": 1,
		"embedding_warmup_epochs": 0,
		// "adam" is AdamW (lib/model.py); word2idx is not an option of the parser, train.py sets it.
		"optim": "adam", "word2idx": nil, "model_name": "runs/runX", "bi_gru": true, "input_scale_factor": 1.0,
		"seed": 2022,
	})
	if m.Options.TextEncoder == TextBert {
		o["vocab_size"] = m.Dims.Vocab
	}
	return o
}

func isCHAN(r *Reference) bool {
	if len(r.states) != 4 || !r.has(0, "fc.weight", 2) || len(r.states[2])+len(r.states[3]) > 0 || isVSEInf(r) {
		return false
	}
	return r.has(1, "bert."+bertWords, 2) || r.has(1, "embed.weight", 2) && r.has(1, "fc.weight", 2)
}

func readCHAN(r *Reference) error {
	if err := readBertOrBiGRU(r); err != nil {
		return err
	}
	c := &r.options.CHAN
	switch {
	case r.has(0, "feedforward.ln.weight", 1):
		c.ImageEncoder = "selfattention"
	case r.has(0, "feedforward.ln_1.weight", 1):
		c.ImageEncoder, c.Axis = "transformer", "batch" // as the repository's own code has it
	default:
		c.ImageEncoder = "basic"
	}
	return nil
}

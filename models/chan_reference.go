package models

// Checkpoints of ppanzx/CHAN hold four state dicts, of images, text, similarity and loss; the last two are empty. The
// rest follows from the options. Two options are our additions: the repository has 8 heads (region_attention_heads) and
// attends across the batch (transformer_axis).
func init() {
	formats[CHAN] = format{matches: isCHAN, read: readCHAN, options: chanReferenceOptions, recalls: 6,
		unsupported: []string{"no_txtnorm"}}
}

// chanReferenceOptions are the options of ppanzx/CHAN, arguments.py and train.py.
func chanReferenceOptions(m *Model) map[string]any {
	return with(boxOptions(m), map[string]any{"precomp_enc_type": m.Options.CHAN.ImageEncoder,
		"text_enc_type": m.Options.TextEncoder, "criterion": "ContrastiveLoss", "temperature": 0.05,
		"obj_drop_rate": 0.2, "wemb_type": nil, "margin": 0.05, "embedding_warmup_epochs": 0,
		"word2idx": nil, // not an option of the parser; train.py sets it
		"bi_gru":   true, "seed": 2022})
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

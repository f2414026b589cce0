package models

// Checkpoints of kuanghuei/SCAN hold two state dicts, of images and text. The rest follows from the options.
func init() {
	formats[SCAN] = format{matches: isSCAN, read: readSCAN, options: scanReferenceOptions, recalls: 6}
}

// scanReferenceOptions are the options of kuanghuei/SCAN, train.py.
func scanReferenceOptions(m *Model) map[string]any {
	layer := "basic"
	if m.Options.SCAN.WeightNorm {
		layer = "weight_norm"
	}
	return with(commonOptions(m), map[string]any{"img_dim": m.Dims.Feature, "model_name": "./runs/runX/checkpoint",
		"bi_gru": m.Options.TextEncoder == "bigru", "precomp_enc_type": layer})
}

// isSCAN reports whether the state dicts may be SCAN's. With a unidirectional GRU they may also be VSE++'s.
func isSCAN(r *Reference) bool {
	return len(r.states) == 2 && (r.has(0, "fc.weight", 2) && len(r.states[0]) == 2 || r.has(0, "fc.weight_v", 2)) &&
		r.has(1, "embed.weight", 2) && r.has(1, "rnn.weight_hh_l0", 2)
}

func readSCAN(r *Reference) error {
	r.options.SCAN.WeightNorm = r.states[0]["fc.weight"] == nil
	encoder := "gru"
	if r.has(1, "rnn.weight_hh_l0_reverse", 2) {
		encoder = "bigru"
	}
	r.readSizes(encoder)
	return nil
}

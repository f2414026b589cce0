package models

// The checkpoints of kuanghuei/SCAN: two state dicts, of images and text. What does not follow from the tensors comes
// from the options.
func init() {
	formats[SCAN] = format{matches: isSCAN, read: readSCAN, options: scanReferenceOptions, recalls: 6}
}

// scanReferenceOptions are the options of kuanghuei/SCAN, train.py.
func scanReferenceOptions(m *Model) map[string]any {
	o := commonOptions(m)
	o["img_dim"], o["model_name"], o["bi_gru"], o["val_step"] = m.Dims.Feature, "./runs/runX/checkpoint",
		m.Options.TextEncoder == "bigru", 500
	o["precomp_enc_type"] = "basic"
	if m.Options.SCAN.WeightNorm {
		o["precomp_enc_type"] = "weight_norm"
	}
	return o
}

// isSCAN: with a unidirectional GRU the tensors are also the tensors of VSE++.
func isSCAN(r *Reference) bool {
	return len(r.states) == 2 && (r.has(0, "fc.weight", 2) && len(r.states[0]) == 2 || r.has(0, "fc.weight_v", 2)) &&
		r.has(1, "embed.weight", 2) && r.has(1, "rnn.weight_hh_l0", 2)
}

func readSCAN(r *Reference) error {
	o := &r.options
	s := &o.SCAN
	fc := r.states[0]["fc.weight"]
	if fc == nil {
		fc, s.WeightNorm = r.states[0]["fc.weight_v"], true
	}
	o.TextEncoder = "gru"
	if r.has(1, "rnn.weight_hh_l0_reverse", 2) {
		o.TextEncoder = "bigru"
	}
	embed := r.states[1]["embed.weight"]
	o.EmbedDim, o.WordDim = fc.Shape[0], embed.Shape[1]
	r.dims = Dims{Regions: usualRegions, Feature: fc.Shape[1], Vocab: embed.Shape[0]}
	return nil
}

package models

// The checkpoints of KunpengLi1994/VSRN and of LSEH's VSRN_LSEH: the retrieval network without its captioning branch.
// Their "best_rsum" adds up four recalls, without R@10 (train.py, validate; quirk Q14).
func init() {
	formats[VSRN] = format{matches: isVSRN, read: readVSRN, recalls: 4,
		unsupported: []string{"use_abs", "no_imgnorm"}, options: func(m *Model) map[string]any {
			o := imageOptions(m)
			o["img_dim"], o["dim_vid"] = m.Dims.Feature, m.Options.EmbedDim
			if m.Options.VSRN.Mode == modeCOCO {
				o["data_name"] = "coco_precomp"
			}
			o["dim_word"], o["max_len"] = m.Options.WordDim, captionLength
			o["bidirectional"], o["rnn_type"], o["rnn_dropout_p"] = 0, "gru", 0.5
			return o
		}}
}

func isVSRN(r *Reference) bool {
	return len(r.states) == 2 && r.has(0, "fc.weight", 2) && r.has(0, "Rs_GCN_1.W.0.weight", 3) &&
		r.has(1, "embed.weight", 2) && r.has(1, "rnn.weight_hh_l0", 2)
}

// readVSRN takes the mode from the batch norm after the GRU. No tensor depends on the number of regions.
func readVSRN(r *Reference) error {
	o := &r.options
	fc, embed := r.states[0]["fc.weight"], r.states[1]["embed.weight"]
	o.TextEncoder, o.EmbedDim, o.WordDim = "gru", fc.Shape[0], embed.Shape[1]
	o.VSRN.Caption = false
	if r.states[0]["bn.weight"] == nil {
		o.VSRN.Mode = modeCOCO
	}
	r.dims = Dims{Regions: usualRegions, Feature: fc.Shape[1], Vocab: embed.Shape[0]}
	return nil
}

package models

// Checkpoints of KunpengLi1994/VSRN and of LSEH's VSRN_LSEH hold the retrieval network without its captioning branch.
// Their "best_rsum" is the sum of four recalls, without R@10 (train.py, validate; quirk Q14).
func init() {
	formats[VSRN] = format{matches: isVSRN, read: readVSRN, recalls: 4,
		unsupported: []string{"use_abs", "no_imgnorm"}, options: func(m *Model) map[string]any {
			o := with(imageOptions(m), map[string]any{"img_dim": m.Dims.Feature, "dim_vid": m.Options.EmbedDim,
				"dim_word": m.Options.WordDim, "max_len": captionLength, "bidirectional": 0, "rnn_type": "gru",
				"rnn_dropout_p": 0.5})
			if m.Options.VSRN.Mode == modeCOCO {
				o["data_name"] = "coco_precomp"
			}
			return o
		}}
}

func isVSRN(r *Reference) bool {
	return len(r.states) == 2 && r.has(0, "fc.weight", 2) && r.has(0, "Rs_GCN_1.W.0.weight", 3) &&
		r.has(1, "embed.weight", 2) && r.has(1, "rnn.weight_hh_l0", 2)
}

// readVSRN finds the mode: only f30k has a batch norm after the GRU.
func readVSRN(r *Reference) error {
	r.readSizes("gru")
	r.options.VSRN.Caption = false
	if r.states[0]["bn.weight"] == nil {
		r.options.VSRN.Mode = modeCOCO
	}
	return nil
}

package models

import "fmt"

// Checkpoints of CrossmodalGroup/GSMN hold four state dicts: the two encoders and the two graphs.
func init() {
	formats[GSMN] = format{matches: isGSMN, read: readGSMN, recalls: 6,
		unsupported: []string{"no_imgnorm", "no_txtnorm"}, options: func(m *Model) map[string]any {
			return with(commonOptions(m), map[string]any{"img_dim": m.Dims.Feature, "model_name": "./runs/checkpoint",
				"bi_gru": true, "batch_size": 64, "val_step": 1000, "no_txtnorm": false,
				"num_block": gsmnPublished.blocks, "hid_dim": gsmnPublished.hidden, "out_dim": 1,
				"feat_dim": gsmnPublished.blocks}) // the size of a node's matching vector
		}}
}

func isGSMN(r *Reference) bool {
	return len(r.states) == 4 && r.has(0, "fc.weight", 2) && r.has(1, "embed.weight", 2) &&
		r.has(2, "graph_convolution_1.mean_rho", 2) && r.has(3, "graph_convolution_3.params", 2)
}

func readGSMN(r *Reference) error {
	if !r.has(1, "rnn.weight_hh_l0_reverse", 2) {
		return fmt.Errorf("a GSMN checkpoint without a bidirectional GRU in its text encoder; the published models " +
			"have one")
	}
	r.readSizes("bigru")
	return nil
}

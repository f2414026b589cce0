package models

import "fmt"

// The checkpoints of CrossmodalGroup/GSMN: four state dicts, the encoders and the two graphs.
func init() {
	formats[GSMN] = format{matches: isGSMN, read: readGSMN, recalls: 6,
		unsupported: []string{"no_imgnorm", "no_txtnorm"}, options: func(m *Model) map[string]any {
			o := commonOptions(m)
			o["img_dim"], o["model_name"], o["bi_gru"], o["batch_size"], o["val_step"] = m.Dims.Feature,
				"./runs/checkpoint", true, 64, 1000
			o["no_txtnorm"] = false
			o["num_block"], o["hid_dim"], o["out_dim"] = gsmnPublished.blocks, gsmnPublished.hidden, 1
			o["feat_dim"] = gsmnPublished.blocks // the size of a node's matching vector
			return o
		}}
}

func isGSMN(r *Reference) bool {
	return len(r.states) == 4 && r.has(0, "fc.weight", 2) && r.has(1, "embed.weight", 2) &&
		r.has(2, "graph_convolution_1.mean_rho", 2) &&
		r.has(3, "graph_convolution_3.params", 2)
}

// readGSMN: no tensor depends on the number of regions.
func readGSMN(r *Reference) error {
	if !r.has(1, "rnn.weight_hh_l0_reverse", 2) {
		return fmt.Errorf("a GSMN checkpoint without a bidirectional GRU in its text encoder; the published models " +
			"have one")
	}
	o := &r.options
	fc, embed := r.states[0]["fc.weight"], r.states[1]["embed.weight"]
	o.TextEncoder, o.EmbedDim, o.WordDim = "bigru", fc.Shape[0], embed.Shape[1]
	r.dims = Dims{Regions: usualRegions, Feature: fc.Shape[1], Vocab: embed.Shape[0]}
	return nil
}

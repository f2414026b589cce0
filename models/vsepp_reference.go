package models

import "fmt"

// The checkpoints of fartashf/vsepp and of LSEH's VSEpp_LSEH, which hold the same tensors.
func init() {
	formats[VSEPP] = format{matches: isVSEPP, read: readVSEPP, recalls: 6, options: func(m *Model) map[string]any {
		o := imageOptions(m)
		o["img_dim"] = m.Dims.Regions * m.Dims.Feature
		return o
	}}
}

func isVSEPP(r *Reference) bool {
	return len(r.states) == 2 && r.has(0, "fc.weight", 2) && len(r.states[0]) == 2 && r.has(1, "embed.weight", 2) &&
		r.has(1, "rnn.weight_hh_l0", 2)
}

func readVSEPP(r *Reference) error {
	if r.states[1]["rnn.weight_ih_l0_reverse"] != nil {
		return fmt.Errorf("a VSE++ checkpoint with a bidirectional GRU, which is not supported; supported is the " +
			"unidirectional GRU of the published models")
	}
	o := &r.options
	fc, embed := r.states[0]["fc.weight"], r.states[1]["embed.weight"]
	o.TextEncoder, o.EmbedDim, o.WordDim = "gru", fc.Shape[0], embed.Shape[1]
	r.dims = Dims{Regions: 1, Feature: fc.Shape[1], Vocab: embed.Shape[0]}
	if fc.Shape[1] == usualRegions*usualFeature {
		r.dims.Regions, r.dims.Feature = usualRegions, usualFeature
	}
	return nil
}

// What the stored product of both most likely is, and the number of regions where nothing is stored that depends on it.
const usualRegions, usualFeature = 36, 2048

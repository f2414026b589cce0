package models

import "fmt"

// Checkpoints of fartashf/vsepp and of LSEH's VSEpp_LSEH hold the same tensors.
func init() {
	formats[VSEPP] = format{matches: isVSEPP, read: readVSEPP, recalls: 6, options: func(m *Model) map[string]any {
		return with(imageOptions(m), map[string]any{"img_dim": m.Dims.Regions * m.Dims.Feature})
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
	r.readSizes("gru")
	r.dims.Regions = 1
	if r.dims.Feature == usualRegions*usualFeature {
		r.dims.Regions, r.dims.Feature = usualRegions, usualFeature
	}
	return nil
}

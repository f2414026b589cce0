package models

import (
	"fmt"
	"maps"
)

// The checkpoints of Paranioar/SGRAF and of LSEH's SGRAF_LSEH: three state dicts, of images, text and similarity, with
// the names used here.
func init() {
	for name, module := range map[string]string{SAF: "SAF_module.attn_sim_w.weight",
		SGR: "SGR_module.0.graph_query_w.weight"} {
		formats[name] = format{matches: func(r *Reference) bool { return isSGRAF(r) && r.has(2, module, 2) },
			read: readSGRAF, options: sgrafReferenceOptions, recalls: 6,
			unsupported: []string{"no_imgnorm", "no_txtnorm"}}
	}
}

func isSGRAF(r *Reference) bool {
	return len(r.states) == 3 && r.has(0, "fc.weight", 2) && r.has(1, "embed.weight", 2) &&
		r.has(1, "cap_rnn.weight_hh_l0", 2) &&
		r.has(2, "sim_tranloc_w.weight", 2) && r.has(2, "v_global_w.embedding_local.1.weight", 1)
}

// readSGRAF takes the number of regions from the batch norm that has them as channels.
func readSGRAF(r *Reference) error {
	if r.states[1]["cap_rnn.weight_hh_l0_reverse"] == nil {
		return fmt.Errorf("a SGRAF checkpoint with a unidirectional GRU, which is not supported; supported is the " +
			"bidirectional GRU of the published models")
	}
	if name, ok := r.opt["module_name"].(string); ok && name != "SAF" && name != "SGR" {
		return fmt.Errorf("a SGRAF checkpoint with module_name %q, expected SAF or SGR", name)
	}
	o, image, text, sim := &r.options, r.states[0], r.states[1], r.states[2]
	fc, embed := image["fc.weight"], text["embed.weight"]
	o.TextEncoder, o.EmbedDim, o.WordDim = "bigru", fc.Shape[0], embed.Shape[1]
	o.SGRAF.SimDim = sim["sim_tranloc_w.weight"].Shape[0]
	for k := 0; sim[fmt.Sprintf("SGR_module.%d.graph_query_w.weight", k)] != nil; k++ {
		o.SGRAF.Steps = k + 1
	}
	r.dims = Dims{Regions: sim["v_global_w.embedding_local.1.weight"].Shape[0], Feature: fc.Shape[1],
		Vocab: embed.Shape[0]}
	return nil
}

// sgrafReferenceOptions are the options of Paranioar/SGRAF, opts.py.
func sgrafReferenceOptions(m *Model) map[string]any {
	module := "SGR"
	if m.Options.Network == SAF {
		module = "SAF"
	}
	o := commonOptions(m)
	maps.Copy(o, map[string]any{
		"model_name": "./runs/checkpoint", "num_epochs": 40, "lr_update": 30, "val_step": 1000,
		"img_dim": m.Dims.Feature, "bi_gru": true,
		"no_txtnorm": false, "module_name": module, "sgr_step": m.Options.SGRAF.Steps,
		"sim_dim": m.Options.SGRAF.SimDim,
	})
	return o
}

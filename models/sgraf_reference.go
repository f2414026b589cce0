package models

import "fmt"

// Checkpoints of Paranioar/SGRAF and of LSEH's SGRAF_LSEH hold three state dicts, of images, text and similarity.
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
		r.has(1, "cap_rnn.weight_hh_l0", 2) && r.has(2, "sim_tranloc_w.weight", 2) &&
		r.has(2, "v_global_w.embedding_local.1.weight", 1)
}

// readSGRAF finds the sizes. The number of regions is the number of channels of a batch norm.
func readSGRAF(r *Reference) error {
	if r.states[1]["cap_rnn.weight_hh_l0_reverse"] == nil {
		return fmt.Errorf("a SGRAF checkpoint with a unidirectional GRU, which is not supported; supported is the " +
			"bidirectional GRU of the published models")
	}
	if name, ok := r.opt["module_name"].(string); ok && name != "SAF" && name != "SGR" {
		return fmt.Errorf("a SGRAF checkpoint with module_name %q, expected SAF or SGR", name)
	}
	r.readSizes("bigru")
	o, sim := &r.options.SGRAF, r.states[2]
	o.SimDim = sim["sim_tranloc_w.weight"].Shape[0]
	for k := 0; sim[fmt.Sprintf("SGR_module.%d.graph_query_w.weight", k)] != nil; k++ {
		o.Steps = k + 1
	}
	r.dims.Regions = sim["v_global_w.embedding_local.1.weight"].Shape[0]
	return nil
}

// sgrafReferenceOptions are the options of Paranioar/SGRAF, opts.py.
func sgrafReferenceOptions(m *Model) map[string]any {
	module := "SGR"
	if m.Options.Network == SAF {
		module = "SAF"
	}
	return with(commonOptions(m), map[string]any{"model_name": "./runs/checkpoint", "num_epochs": 40, "lr_update": 30,
		"val_step": 1000, "img_dim": m.Dims.Feature, "bi_gru": true, "no_txtnorm": false, "module_name": module,
		"sgr_step": m.Options.SGRAF.Steps, "sim_dim": m.Options.SGRAF.SimDim})
}

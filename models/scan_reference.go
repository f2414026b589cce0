package models

import (
	"fmt"

	"vsetrain/internal/pickle"
)

// The checkpoints of kuanghuei/SCAN: two state dicts, of images and text. What does not follow from the tensors comes
// from the options.
var (
	scanAggregates = map[string]string{"LogSumExp": "lse", "Mean": "mean", "Max": "max", "Sum": "sum"}
	scanFlags      = map[string]func(o *SCANOptions) *bool{
		"no_imgnorm": func(o *SCANOptions) *bool { return &o.NoImgNorm },
		"no_txtnorm": func(o *SCANOptions) *bool { return &o.NoTxtNorm }}
)

func init() {
	formats[SCAN] = format{matches: isSCAN, read: readSCAN, options: scanReferenceOptions, recalls: 6}
}

// scanReferenceOptions are those of kuanghuei/SCAN, train.py.
func scanReferenceOptions(m *Model) map[string]any {
	s := m.Options.SCAN
	o := commonOptions(m)
	o["img_dim"], o["model_name"], o["bi_gru"], o["val_step"] = m.Dims.Feature, "./runs/runX/checkpoint",
		m.Options.TextEncoder == "bigru", 500
	o["cross_attn"], o["raw_feature_norm"], o["lambda_softmax"], o["lambda_lse"] = s.Attention, s.Norm, s.Lambda,
		s.LambdaLSE
	o["agg_func"] = nameOf(scanAggregates, s.Aggregate)
	o["precomp_enc_type"] = "basic"
	if s.WeightNorm {
		o["precomp_enc_type"] = "weight_norm"
	}
	for name, of := range scanFlags {
		o[name] = *of(&s)
	}
	return o
}

// isSCAN tells SCAN from VSE++, whose text encoder has the same tensors, by the options that only SCAN has.
func isSCAN(r *Reference) bool {
	_, named := r.opt["cross_attn"]
	return named && len(r.states) == 2 && r.has(1, "embed.weight", 2) && r.has(1, "rnn.weight_hh_l0", 2)
}

func readSCAN(r *Reference, opt map[string]any) error {
	o := &r.options
	s := &o.SCAN
	fc := r.states[0]["fc.weight"]
	if fc == nil {
		fc, s.WeightNorm = r.states[0]["fc.weight_v"], true
	}
	if fc == nil || len(fc.Shape) != 2 {
		return fmt.Errorf("a SCAN checkpoint whose image encoder has neither fc.weight nor fc.weight_v")
	}
	o.TextEncoder = "gru"
	if r.has(1, "rnn.weight_hh_l0_reverse", 2) {
		o.TextEncoder = "bigru"
	}
	embed := r.states[1]["embed.weight"]
	o.EmbedDim, o.WordDim = fc.Shape[0], embed.Shape[1]
	text := func(name string, to *string, known map[string]string) error {
		v, ok := pickle.Text(opt[name])
		if !ok {
			return nil
		}
		if known == nil {
			*to = v
			return nil
		}
		if *to, ok = known[v]; !ok {
			return fmt.Errorf("a SCAN checkpoint with %s %q, expected LogSumExp, Mean, Max or Sum", name, v)
		}
		return nil
	}
	if err := text("agg_func", &s.Aggregate, scanAggregates); err != nil {
		return err
	}
	for name, to := range map[string]*string{"cross_attn": &s.Attention, "raw_feature_norm": &s.Norm} {
		if err := text(name, to, nil); err != nil {
			return err
		}
	}
	for name, to := range map[string]*float64{"lambda_softmax": &s.Lambda, "lambda_lse": &s.LambdaLSE} {
		switch v := opt[name].(type) {
		case float64:
			*to = v
		case int64:
			*to = float64(v)
		}
	}
	for name, of := range scanFlags {
		*of(s) = opt[name] == true
	}
	r.dims = Dims{Regions: usualRegions, Feature: fc.Shape[1], Vocab: embed.Shape[0]}
	return nil
}

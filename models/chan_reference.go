package models

import (
	"fmt"
	"maps"

	"vsetrain/internal/pickle"
)

// The checkpoints of ppanzx/CHAN: four state dicts, of images, text, similarity and loss, the last two empty. What the
// tensors do not tell comes from the options, under the repository's names.
var (
	chanCodings  = map[string]string{"VHACoding": "vha", "THACoding": "tha", "VSACoding": "vsa"}
	chanPoolings = map[string]string{"LSEPooling": "lse", "MeanPooling": "mean", "MaxPooling": "max",
		"SumPooling":     "sum",
		"SoftmaxPooling": "softmax"}
)

// chanHeads and chanTransformer are our own additions to the options: the repository has 8 heads and attends across the
// batch.
const (
	chanHeads       = "region_attention_heads"
	chanTransformer = "transformer_axis"
)

func init() {
	formats[CHAN] = format{matches: isCHAN, read: readCHAN, options: chanReferenceOptions, recalls: 6}
}

// chanReferenceOptions are those of ppanzx/CHAN, arguments.py.
func chanReferenceOptions(m *Model) map[string]any {
	c, o := m.Options.CHAN, commonOptions(m)
	maps.Copy(o, map[string]any{
		"img_dim": m.Dims.Feature, "vocab_size": m.Dims.Vocab + 1, "no_imgnorm": c.NoImgNorm, "no_txtnorm": false,
		"precomp_enc_type": c.ImageEncoder, "text_enc_type": m.Options.TextEncoder,
		"coding_type": nameOf(chanCodings, c.Coding), "pooling_type": nameOf(chanPoolings, c.Pooling), "alpha": c.Alpha,
		"belta": c.Beta, "criterion": "ContrastiveLoss",
		"temperature": 0.05, "drop": c.SizeAugment, "obj_drop_rate": 0.2, "wemb_type": nil, "num_epochs": 25,
		"batch_size": 128, "learning_rate": 0.0005, "log_step": 200, "margin": 0.05, "vse_mean_warmup_epochs": 1,
		"embedding_warmup_epochs": 0,
		"optim":                   "adamw", "model_name": "runs/runX", "bi_gru": true, "input_scale_factor": 1.0,
		"seed":    2022,
		chanHeads: c.Heads, chanTransformer: c.Axis,
	})
	if m.Options.TextEncoder == TextBert {
		o["vocab_size"], o[headsOption] = m.Dims.Vocab, m.Options.Bert.Heads
	}
	return o
}

// nameOf is the key of a value.
func nameOf(names map[string]string, value string) string {
	for name, v := range names {
		if v == value {
			return name
		}
	}
	return ""
}

func isCHAN(r *Reference) bool {
	if len(r.states) != 4 || !r.has(0, "fc.weight", 2) || len(r.states[2])+len(r.states[3]) > 0 {
		return false
	}
	return r.has(1, "bert."+bertWords, 2) || r.has(1, "embed.weight", 2) && r.has(1, "fc.weight", 2)
}

func readCHAN(r *Reference, opt map[string]any) error {
	if r.has(1, "bert."+bertWords, 2) {
		if err := readBert(r, opt); err != nil {
			return err
		}
	} else if err := readMaskedBiGRU(r, "CHAN"); err != nil {
		return err
	}
	c := &r.options.CHAN
	switch {
	case r.has(0, "feedforward.ln.weight", 1):
		c.ImageEncoder = "selfattention"
	case r.has(0, "feedforward.ln_1.weight", 1):
		c.ImageEncoder, c.Axis = "transformer", "batch" // as the repository's own code has it
	default:
		c.ImageEncoder = "basic"
	}
	for _, x := range []struct {
		option string
		to     *string
		known  map[string]string
	}{{"coding_type", &c.Coding, chanCodings}, {"pooling_type", &c.Pooling, chanPoolings},
		{chanTransformer, &c.Axis, map[string]string{"regions": "regions", "batch": "batch"}}} {
		v, ok := pickle.Text(opt[x.option])
		if !ok && x.option != chanTransformer {
			return fmt.Errorf("a CHAN checkpoint without the option %s, which no tensor tells", x.option)
		} else if !ok {
			continue
		}
		if *x.to, ok = x.known[v]; !ok {
			return fmt.Errorf("a CHAN checkpoint with %s %q, which is not supported", x.option, v)
		}
	}
	for name, to := range map[string]*float64{"alpha": &c.Alpha, "belta": &c.Beta} {
		if v, ok := opt[name].(float64); ok {
			*to = v
		} else if v, ok := opt[name].(int64); ok {
			*to = float64(v)
		}
	}
	if v, ok := opt[chanHeads].(int64); ok {
		c.Heads = int(v)
	}
	c.NoImgNorm = opt["no_imgnorm"] == true
	if drop, ok := opt["drop"].(bool); ok {
		c.SizeAugment = drop
	}
	return nil
}

package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// attentionViews are the views of both passes of PairAttention.
type attentionViews struct {
	pairLayout
	wide            int // columns of a word
	pairs, columns  int // words × images, captions × columns
	scores, weights driver.Ptr
}

func (d *dev) attentionViews(a device.PairAttention) (v attentionViews) {
	v.pairLayout = d.layout(a.Lengths)
	v.wide = a.B * a.R
	v.pairs, v.columns = v.words*a.B, v.captions*v.wide
	v.scores, v.weights = d.pointer(a.Scores), d.pointer(a.Weights)
	return v
}

func (d *dev) PairAttention(a device.PairAttention) {
	v := d.attentionViews(a)
	if v.words == 0 {
		return
	}
	if a.OverWords {
		w := d.workspace(v.pairs)
		factor := w.cut(v.pairs)
		d.warps("attention_region_norms", v.pairs).ptr(factor, v.scores).float(a.Lambda).int(a.R).long(v.pairs)
		d.each("attention_words", v.columns).ptr(v.weights, v.scores, factor, v.first).int(a.B, a.R).long(v.columns)
		v.clear(d, v.weights, v.wide)
		return
	}
	w := d.workspace(v.columns)
	factor := w.cut(v.columns)
	d.each("attention_word_norms", v.columns).ptr(factor, v.scores, v.first).float(a.Lambda).long(v.wide, v.columns)
	d.warps("attention_regions", v.pairs).ptr(v.weights, v.scores, factor, v.wordCaption).int(a.B, a.R).long(v.pairs)
}

func (d *dev) PairAttentionGrad(a device.PairAttention) {
	v := d.attentionViews(a)
	dw, ds := d.pointer(a.DWeights), d.pointer(a.DScores)
	if v.words == 0 {
		return
	}
	if a.OverWords {
		d.each("attention_words_grad", v.columns).ptr(ds, v.weights, dw, v.first).float(a.Lambda).long(v.wide,
			v.columns)
		v.clear(d, ds, v.wide)
		d.warps("attention_region_norms_grad", v.pairs).ptr(ds, v.scores).int(a.R).long(v.pairs)
		return
	}
	d.warps("attention_regions_grad", v.pairs).ptr(ds, v.weights, dw).float(a.Lambda).int(a.R).long(v.pairs)
	d.each("attention_word_norms_grad", v.columns).ptr(ds, v.scores, v.first).long(v.wide, v.columns)
}

package cuda

import (
	"fmt"

	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda/driver"
)

var (
	kernelAttentionWordNorms       = entryOf("attention_word_norms")
	kernelAttentionWordNormsGrad   = entryOf("attention_word_norms_grad")
	kernelAttentionRegions         = entryOf("attention_regions")
	kernelAttentionRegionsGrad     = entryOf("attention_regions_grad")
	kernelAttentionRegionNorms     = entryOf("attention_region_norms")
	kernelAttentionRegionNormsGrad = entryOf("attention_region_norms_grad")
	kernelAttentionWords           = entryOf("attention_words")
	kernelAttentionWordsGrad       = entryOf("attention_words_grad")
)

// attentionViews are the views of both directions of PairAttention.
type attentionViews struct {
	pairLayout
	wide            int // columns of a word
	pairs, columns  int // words × images, captions × columns
	scores, weights driver.Ptr
}

func (d *dev) attentionViews(what string, a device.PairAttentionArgs) (v attentionViews) {
	positive(what, a.B, a.R)
	if !(a.Lambda > 0 && a.Lambda <= device.MaxLambda) {
		panic(fmt.Sprintf("cuda: %s: Lambda %v, expected a positive number of at most %v", what, a.Lambda, device.MaxLambda))
	}
	v.pairLayout = d.layout(what, a.Lengths, 0)
	v.wide = a.B * a.R
	v.pairs, v.columns = v.words*a.B, v.captions*v.wide
	v.scores, v.weights = d.floats(what, a.Scores, v.words*v.wide), d.floats(what, a.Weights, v.words*v.wide)
	return v
}

// PairAttention implements device.Pairs.
func (d *dev) PairAttention(a device.PairAttentionArgs) {
	v := d.attentionViews("PairAttention", a)
	if v.words == 0 {
		return
	}
	if a.OverWords {
		w := d.workspace(v.pairs)
		factor := w.cut(v.pairs)
		d.warps(kernelAttentionRegionNorms, v.pairs).ptr(factor, v.scores).float(a.Lambda).int(a.R).long(v.pairs)
		d.each(kernelAttentionWords, v.columns).ptr(v.weights, v.scores, factor, v.first).int(a.B, a.R).long(v.columns)
		v.clear(d, v.weights, v.wide)
		return
	}
	w := d.workspace(v.columns)
	factor := w.cut(v.columns)
	d.each(kernelAttentionWordNorms, v.columns).ptr(factor, v.scores, v.first).float(a.Lambda).long(v.wide, v.columns)
	d.warps(kernelAttentionRegions, v.pairs).ptr(v.weights, v.scores, factor, v.wordCaption).int(a.B, a.R).long(v.pairs)
}

// PairAttentionGrad implements device.Pairs.
func (d *dev) PairAttentionGrad(a device.PairAttentionArgs) {
	const what = "PairAttentionGrad"
	v := d.attentionViews(what, a)
	dw, ds := d.floats(what+" DWeights", a.DWeights, v.words*v.wide), d.floats(what+" DScores", a.DScores, v.words*v.wide)
	if v.words == 0 {
		return
	}
	if a.OverWords {
		d.each(kernelAttentionWordsGrad, v.columns).ptr(ds, v.weights, dw, v.first).float(a.Lambda).long(v.wide, v.columns)
		v.clear(d, ds, v.wide)
		d.warps(kernelAttentionRegionNormsGrad, v.pairs).ptr(ds, v.scores).int(a.R).long(v.pairs)
		return
	}
	d.warps(kernelAttentionRegionsGrad, v.pairs).ptr(ds, v.weights, dw).float(a.Lambda).int(a.R).long(v.pairs)
	d.each(kernelAttentionWordNormsGrad, v.columns).ptr(ds, v.scores, v.first).long(v.wide, v.columns)
}

package text

import "bytes"

// contraction is one written word that counts as two (Robert MacIntyre's list).
type contraction struct {
	whole, parts []byte
	lead         bool // needs a blank before it, else a word boundary
	blank        bool // needs white space after it, else a word boundary
}

// The contractions without and with an apostrophe.
var plain, quoted = []contraction{
	{whole: []byte("cannot"), parts: []byte(" can not ")},
	{whole: []byte("gimme"), parts: []byte(" gim me ")},
	{whole: []byte("gonna"), parts: []byte(" gon na ")},
	{whole: []byte("gotta"), parts: []byte(" got ta ")},
	{whole: []byte("lemme"), parts: []byte(" lem me ")},
	{whole: []byte("wanna"), parts: []byte(" wan na "), blank: true},
}, []contraction{
	{whole: []byte("d'ye"), parts: []byte(" d 'ye ")},
	{whole: []byte("more'n"), parts: []byte(" more 'n ")},
	{whole: []byte(" 'tis"), parts: []byte(" 't is "), lead: true},
	{whole: []byte(" 'twas"), parts: []byte(" 't was "), lead: true},
}

func (w *rewriter) contractions(has uint16) {
	for i := range plain {
		w.contract(&plain[i])
	}
	if has&hasQuote != 0 {
		for i := range quoted {
			w.contract(&quoted[i])
		}
	}
}

// contract splits every occurrence of a contraction.
func (w *rewriter) contract(c *contraction) {
	if !bytes.Contains(w.text, c.whole) {
		return
	}
	dst, src := w.spare[:0], w.text
	done := 0
	for {
		k := bytes.Index(src[done:], c.whole)
		if k < 0 {
			break
		}
		at := done + k
		end := at + len(c.whole)
		before := c.lead || !wordBefore(src, at)
		after := !wordAt(src, end)
		if c.blank {
			after = end == len(src) || spaceAt(src, end) > 0
		}
		if before && after {
			dst = append(append(dst, src[done:at]...), c.parts...)
		} else {
			dst = append(dst, src[done:end]...)
		}
		done = end
	}
	w.text, w.spare = append(dst, src[done:]...), w.text
}

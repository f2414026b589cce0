package train

import (
	"vsetrain/batch"
	"vsetrain/data/text"
	"vsetrain/models"
)

// labels are the inputs of a captioning branch (models.Labels) for one batch. A caption has a step for each unmasked
// target: its words after <start>, <end> and one <pad>, up to the longest caption that the branch writes
// (KunpengLi1994/VSRN, data.py: PrecompDataset).
type labels struct {
	words, mask, steps []int32
	row, rowMask       []int32 // of one caption
	all                []int32 // the same number of steps for every caption
}

// feed feeds the labels of captions in a bucket to a network with a captioning branch.
func (l *labels) feed(m *models.Model, b *batch.Captions, bucket int) error {
	c, ok := m.Network.(models.Captioner)
	if !ok {
		return nil
	}
	s, maxLength := m.Instance, c.MaxLength()
	columns := labelSteps(bucket, maxLength) + 1
	l.words, l.mask, l.steps = l.words[:0], l.mask[:0], l.steps[:0]
	if len(l.row) != maxLength+1 {
		l.row, l.rowMask = make([]int32, maxLength+1), make([]int32, maxLength+1)
	}
	for _, caption := range b.Words {
		text.FillCaptionLabels(l.row, l.rowMask, caption[1:max(1, len(caption)-1)]) // without <start> and <end>
		l.words, l.mask = append(l.words, l.row[:columns]...), append(l.mask, l.rowMask[:columns]...)
		steps := int32(0)
		for _, m := range l.rowMask[1:columns] {
			steps += m
		}
		l.steps = append(l.steps, steps)
	}
	if err := s.FeedInts(models.InputLabels, l.words); err != nil {
		return err
	}
	if err := s.FeedInts(models.InputLabelMask, l.mask); err != nil {
		return err
	}
	if !m.PadsLabels() {
		return s.FeedInts(models.InputLabelSteps, l.steps)
	}
	l.all = l.all[:0]
	for range b.Lengths {
		l.all = append(l.all, int32(columns-1))
	}
	if err := s.FeedBounded(models.InputLabelLengths, l.steps, l.all); err != nil {
		return err
	}
	return s.FeedInts(models.InputLabelSteps, l.all)
}

package checkpoints

import (
	"slices"
	"testing"

	"vsetrain/eval"
)

// Every measure stands in the card under its own name, in full precision.
func TestMeasuresOfACard(t *testing.T) {
	m := eval.Metrics{I2T: eval.Recalls{R1: 1.0 / 3, R5: 2, R10: 3, MedR: 4, MeanR: 5},
		T2I: eval.Recalls{R1: 6, R5: 7, R10: 8, MedR: 9, MeanR: 10}, RSum: 11, MRecall: 12}
	want := []cardMetric{{"image_to_text_recall_at_1", "Image-to-text R@1", 1.0 / 3},
		{"image_to_text_recall_at_5", "Image-to-text R@5", 2}, {"image_to_text_recall_at_10", "Image-to-text R@10", 3},
		{"image_to_text_median_rank", "Image-to-text median rank", 4},
		{"image_to_text_mean_rank", "Image-to-text mean rank", 5},
		{"text_to_image_recall_at_1", "Text-to-image R@1", 6}, {"text_to_image_recall_at_5", "Text-to-image R@5", 7},
		{"text_to_image_recall_at_10", "Text-to-image R@10", 8},
		{"text_to_image_median_rank", "Text-to-image median rank", 9},
		{"text_to_image_mean_rank", "Text-to-image mean rank", 10}, {"recall_sum", "Sum of recalls", 11},
		{"m_recall", "M-Recall", 12}}
	if got := measuresOf(&m); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

package eval_test

import (
	"fmt"
	"log"

	"vsetrain/data"
	"vsetrain/eval"
)

// Two images with two captions each. Image 0 is most similar to a caption of image 1, so its best own caption has rank
// 1 (counted from 0) and caption 2 finds image 0 first.
func ExampleMeasure() {
	scores := &eval.Dense[float64]{Images: 2, Captions: 4, Data: []float64{
		0.6, 0.5, 0.9, 0.1, // image 0: captions 0 and 1 are its own
		0.2, 0.3, 0.8, 0.7, // image 1: captions 2 and 3 are its own
	}}
	i2t, t2i, err := eval.Ranks(nil, scores, data.EqualGroups(2, 2))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ranks of images", i2t, "and of captions", t2i)
	m, err := eval.Measure(nil, scores, data.EqualGroups(2, 2))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("image to text R@1 %.0f, text to image R@1 %.0f, M-Recall %.2f\n", m.I2T.R1, m.T2I.R1, m.MRecall)
	// Output:
	// ranks of images [1 0] and of captions [0 0 1 0]
	// image to text R@1 50, text to image R@1 75, M-Recall 87.50
}

package loss_test

import (
	"fmt"
	"log"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/graph"
	"vsetrain/loss"
)

// LMH over the scores of three pairs, margin 0.2. Only the hardest negative of each image and each caption counts:
// image 0 and caption 1 are too close to each other, which costs 0.1 in the row and 0.2 in the column.
func ExampleOptions_Build() {
	dev, err := cpu.New(cpu.Options{Precision: cpu.FP64})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	s, err := graph.NewInstance(dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	g := s.Graph()
	var value, gradient *graph.Node
	var program *graph.Program
	err = graph.Build(func() error {
		scores := g.Input("scores", 3, 3)
		value = loss.Options{Name: loss.LMH, Margin: 0.2}.Build(g, scores, loss.Context{}, false)
		gradients, err := g.Gradients(value, scores)
		if err != nil {
			return err
		}
		gradient = gradients[0]
		program, err = graph.Compile(s, g, []*graph.Node{value, gradient}, nil)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := s.FeedDoubles("scores", []float64{
		0.9, 0.8, 0.1,
		0.2, 0.8, 0.3,
		0.4, 0.1, 0.7,
	}); err != nil {
		log.Fatal(err)
	}
	if err := program.RunAll(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("loss %.2f\n", program.Doubles(value)[0])
	fmt.Println("gradient", program.Doubles(gradient))
	// Output:
	// loss 0.30
	// gradient [-1 2 0 0 -1 0 0 0 0]
}

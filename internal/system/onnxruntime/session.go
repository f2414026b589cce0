package onnxruntime

import (
	"errors"
	"fmt"
)

// ErrNone is in the error of Open if Setting names no file and no ONNX Runtime that can be loaded was found.
var ErrNone = errors.New("ONNX Runtime was not found")

// Port is an input or output of a model.
type Port struct {
	Name  string
	Float bool    // it is a tensor of float32
	Shape []int64 // -1 for axes that are known when the model runs
}

// Session is a loaded model. Several goroutines may call Run at once.
type Session struct {
	Inputs, Outputs []Port
	Library         string // path of the library
	Version         string // of ONNX Runtime
	handle
}

// Tensor is values with their shape.
type Tensor struct {
	Shape  []int64
	Values []float32
}

// elements returns the product of a shape.
func elements(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// Find returns the port with this name, or the only port if the name is empty. kind, input or output, is for errors.
func Find(kind string, ports []Port, name string) (Port, error) {
	var names []string
	for _, p := range ports {
		if p.Name == name || name == "" && len(ports) == 1 {
			if !p.Float {
				return p, fmt.Errorf("%s %q is not a tensor of float32", kind, p.Name)
			}
			return p, nil
		}
		names = append(names, p.Name)
	}
	if name == "" {
		return Port{}, fmt.Errorf("the model has %d %ss, %q; name one", len(ports), kind, names)
	}
	return Port{}, fmt.Errorf("the model has no %s %q; it has %q", kind, name, names)
}

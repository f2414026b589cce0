// Package onnx writes models in the Open Neural Network Exchange format (onnx/onnx, onnx.proto): a graph is put
// together operator by operator and encoded in the same bytes every time. Operators are from opset 17.
package onnx

// Package onnx builds graphs operator by operator and writes them in the Open Neural Network Exchange format
// (onnx/onnx, onnx.proto), opset 17. The same graph always has the same bytes.
package onnx

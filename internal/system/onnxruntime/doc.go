// Package onnxruntime runs ONNX models on the CPU with the shared library of ONNX Runtime (onnxruntime_c_api.h, version
// 1.4 or later), which it loads at run time. Nothing is linked.
package onnxruntime

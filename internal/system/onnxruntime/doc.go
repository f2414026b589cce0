// Package onnxruntime runs models of ONNX on the CPU with the shared library of ONNX Runtime (onnxruntime_c_api.h,
// version 1.4 or later), which is loaded while the program runs. Nothing is linked.
package onnxruntime

// Package extract computes features of pictures with a model of ONNX: the image encoder that a network was trained
// behind, such as a convolutional network with a grid of outputs. FILE.yaml beside FILE.onnx says how a picture becomes
// its input (Preprocessing). The result is what package data reads.
package extract

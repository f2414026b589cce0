//go:build !amd64

package npy

const hasF16C = false

func halfToFloatF16C(*float32, *byte, int) {}

func floatToHalfF16C(*byte, *float32, int) {}

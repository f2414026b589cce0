//go:build !amd64

package half

const hasF16C = false

func decodeF16C(*float32, *byte, int) {}

func encodeF16C(*byte, *float32, int) {}

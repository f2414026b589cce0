package cuda

// tensor is what kernels on tensor cores take as operands (mma.cuh).
type tensor int

const (
	tensorNone tensor = iota // there are no such kernels
	tensorBF16
	tensorTF32
)

// tensorOf returns the operands of a precision.
func tensorOf(precision string) tensor {
	switch precision {
	case BF16:
		return tensorBF16
	case TF32:
		return tensorTF32
	}
	return tensorNone
}

// each is the number of values of a word of an operand. An instruction is eight words deep.
func (t tensor) each() int {
	if t == tensorBF16 {
		return 2
	}
	return 1
}

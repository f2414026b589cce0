package cuda

// tensor is the type of the operands of kernels on tensor cores (mma.cuh).
type tensor int

const (
	tensorNone tensor = iota // such kernels are not used
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

// each is the number of values in a 32-bit word of an operand. An instruction is eight words deep.
func (t tensor) each() int {
	if t == tensorBF16 {
		return 2
	}
	return 1
}

package driver

// BLAS is what the device needs of cuBLAS. It is used on the thread of the context.
type BLAS interface {
	Gemm(*Gemm) error
	// Workspace gives cuBLAS memory for its own use.
	Workspace(p Ptr, bytes int) error
	Version() int // 120805 for 12.8.5
	Path() string
	Close() error
}

// WithBias is a BLAS that can add a bias to a product in the same kernel.
type WithBias interface {
	// GemmBias is Gemm of one product and adds Bias [N], float32, to every row of it. The error says NotSupported where
	// it cannot, and then nothing has happened.
	GemmBias(*Gemm) error
}

// Gemm is Count products C [M, N] = Alpha·op(A)·op(B) + Beta·C of row-major matrices. Leading dimensions and strides
// count elements.
type Gemm struct {
	TransA, TransB            bool
	M, N, K                   int
	A, B, C                   Ptr
	LDA, LDB, LDC             int
	StrideA, StrideB, StrideC int
	Count                     int
	Alpha, Beta               float32
	Compute                   Compute
	Half                      bool // A and B are bfloat16, otherwise float32
	HalfC                     bool // with Half and without Bias: C is bfloat16 too
	Bias                      Ptr  // of GemmBias; 0 for none
}

// Compute is how a product rounds its operands; sums are float32.
type Compute int

// The values are the ones of cublasComputeType_t.
const (
	Compute32F  Compute = 68 // the operands as they are
	ComputeBF16 Compute = 75 // operands rounded to bfloat16
	ComputeTF32 Compute = 77 // operands rounded to 10 bits of mantissa
)

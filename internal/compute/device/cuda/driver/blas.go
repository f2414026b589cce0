package driver

// BLAS is what the device needs of cuBLAS. All calls come from the thread of the context.
type BLAS interface {
	Gemm(*Gemm) error
	// GemmBias computes one product and adds Bias [N], float32, to every row in the same kernel. If it cannot, it
	// computes nothing and NotSupported reports true for the error.
	GemmBias(*Gemm) error
	// Workspace gives cuBLAS memory for its own use.
	Workspace(p Ptr, bytes int) error
	Version() int // 120805 for 12.8.5
	Path() string
	Close() error
}

// Gemm describes Count products C [M, N] = Alpha·op(A)·op(B) + Beta·C of row-major matrices. Leading dimensions and
// strides count elements.
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
	HalfC                     bool // C is bfloat16 too; only with Half and without Bias
	Bias                      Ptr  // for GemmBias; 0 for none
}

// Compute says how a product rounds its operands; sums are float32. The values are the same as in cublasComputeType_t.
type Compute int

// Kinds of products.
const (
	Compute32F  Compute = 68 // operands not rounded
	ComputeBF16 Compute = 75 // operands rounded to bfloat16
	ComputeTF32 Compute = 77 // operands rounded to 10 bits of mantissa
)

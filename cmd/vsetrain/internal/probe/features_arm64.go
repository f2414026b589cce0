package probe

import "vsetrain/internal/compute/gemm"

// Features lists the extensions that the kernels can use.
func Features() []Feature { return []Feature{{"NEON", true}, {"BF16", gemm.HasBF16()}} }

package probe

import "vsetrain/internal/compute/gemm"

// Features lists the extensions that the kernels look for.
func Features() []Feature { return []Feature{{"NEON", true}, {"BF16", gemm.HasBF16()}} }

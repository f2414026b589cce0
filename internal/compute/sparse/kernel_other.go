//go:build !amd64

package sparse

import "vsetrain/internal/compute/tile64"

// available lists the implementations this processor can run.
func available() []kernels { return []kernels{{"generic", gatherGeneric, tile64.Best().Double}} }

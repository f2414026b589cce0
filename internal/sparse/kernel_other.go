//go:build !amd64

package sparse

// available lists the implementations this processor can run.
func available() []kernels { return []kernels{{"generic", gatherGeneric, tileGeneric}} }

package tile64

import "golang.org/x/sys/cpu"

//go:noescape
func double512(n int, a *float64, stride int, b, c *float64)

//go:noescape
func single512(n int, a *float64, stride int, b *float32, c *float64)

//go:noescape
func double256(n int, a *float64, stride int, b, c *float64)

//go:noescape
func single256(n int, a *float64, stride int, b *float32, c *float64)

// Available lists the kernels this processor can run, the fastest first.
func Available() (list []Kernel) {
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		if cpu.X86.HasAVX512F {
			list = append(list, Kernel{"avx512", whole(double512), whole(single512)})
		}
		list = append(list, Kernel{"avx2", parts(double256), parts(single256)})
	}
	return append(list, Kernel{"generic", generic[float64], generic[float32]})
}

// whole gives a kernel of a whole tile the signature of Kernel.
func whole[B float32 | float64](f func(n int, a *float64, stride int, b *B, c *float64)) func(int, []float64, int, []B,
	[]float64) {
	return func(n int, a []float64, stride int, b []B, c []float64) {
		if n > 0 {
			check(n, a, stride, b, c)
			f(n, &a[0], stride, &b[0], &c[0])
		}
	}
}

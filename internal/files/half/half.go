// Package half converts between float32 and IEEE 754 half precision: 1 sign, 5 exponent (bias 15), 10 fraction bits.
//
// Half-precision region features take half the disk and page cache of float32, at a relative error of 2^-11. x86 with
// F16C and arm64 convert eight values at a time, in both directions; the scalar code gives the same bits.
//
// Why not x448/float16: it converts one value at a time, which would be the slowest part of reading features.
package half

import (
	"encoding/binary"
	"math"
)

// Float32 returns the value of the half h, which is exact. A signalling NaN becomes quiet.
func Float32(h uint16) float32 { return math.Float32frombits(halfBits(h)) }

// halfBits returns the bits of Float32.
func halfBits(h uint16) uint32 {
	sign := uint32(h&0x8000) << 16
	em := uint32(h & 0x7fff)
	switch {
	case em-0x400 < 0x7800: // normal: shift the fraction, move the bias from 15 to 127
		return sign | (em<<13 + (127-15)<<23)
	case em < 0x400: // zero and subnormal: em counts units of 2^-24, exact in float32
		return sign | math.Float32bits(float32(int32(em))*(1.0/(1<<24)))
	case em == 0x7c00:
		return sign | 0x7f800000
	}
	return sign | 0x7fc00000 | (em&0x3ff)<<13
}

// halfFromBits returns the half nearest to the float32 with bits b, ties to even. Too large values become infinite.
func halfFromBits(b uint32) uint16 {
	sign := uint16(b>>16) & 0x8000
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // NaN: quiet, with the upper payload bits
		return sign | 0x7e00 | uint16(b>>13)&0x3ff
	case b >= 0x47800000: // 65536 and more, infinity
		return sign | 0x7c00
	case b >= 0x38800000: // normal: round bit 13; a carry may lift the exponent, up to infinity
		b += 0xfff + b>>13&1
		return sign | uint16((b-(127-15)<<23)>>13)
	}
	// Subnormal: adding 0.5 (ulp 2^-24) lets the float adder round to units of 2^-24, ties to even.
	return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-math.Float32bits(0.5))
}

// Decode decodes len(dst) halves from src (2 bytes each, little-endian).
func Decode(dst []float32, src []byte) {
	n := 0
	if hasVectors && len(dst) >= 8 {
		n = len(dst) &^ 7
		_ = src[2*n-1]
		decodeVectors(&dst[0], &src[0], n)
	}
	for i := n; i < len(dst); i++ {
		dst[i] = Float32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

// Encode encodes src into dst (2 bytes each, little-endian). It returns the index of the first finite value that is too
// large for a half, -1 if there is none.
func Encode(dst []byte, src []float32) int {
	n := 0
	if hasVectors && len(src) >= 8 {
		n = len(src) &^ 7
		_ = dst[2*n-1]
		encodeVectors(&dst[0], &src[0], n)
	}
	for i := n; i < len(src); i++ {
		binary.LittleEndian.PutUint16(dst[2*i:], halfFromBits(math.Float32bits(src[i])))
	}
	for i, v := range src {
		// From 65520 on, halfway to the next power of two, rounding goes to infinity.
		if (v >= 65520 || v <= -65520) && !math.IsInf(float64(v), 0) {
			return i
		}
	}
	return -1
}

// NotFinite returns the index of the first half that is NaN or infinite, -1 if there is none.
func NotFinite(x []uint16) int {
	for i, h := range x {
		if h&0x7c00 == 0x7c00 {
			return i
		}
	}
	return -1
}

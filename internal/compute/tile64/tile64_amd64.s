#include "textflag.h"

// The kernels for b in float64 and in float32 differ in the instructions that load a row of b alone.

#define BEGIN \
	MOVQ n+0(FP), CX       \
	MOVQ a+8(FP), SI       \
	MOVQ stride+16(FP), R9 \
	MOVQ b+24(FP), BX      \
	MOVQ c+32(FP), DI      \
	SHLQ $3, R9

// A value of a times the row of b in Z24, Z25.
#define ROW512(offset, acc0, acc1, tmp) \
	VBROADCASTSD offset(SI), tmp \
	VFMADD231PD Z24, tmp, acc0   \
	VFMADD231PD Z25, tmp, acc1

#define ROWS512 \
	ROW512(0, Z0, Z1, Z16)    \
	ROW512(8, Z2, Z3, Z17)    \
	ROW512(16, Z4, Z5, Z18)   \
	ROW512(24, Z6, Z7, Z19)   \
	ROW512(32, Z8, Z9, Z20)   \
	ROW512(40, Z10, Z11, Z21) \
	ROW512(48, Z12, Z13, Z22) \
	ROW512(56, Z14, Z15, Z23) \
	ADDQ R9, SI

#define LOAD512 \
	VMOVUPD (DI), Z0     \
	VMOVUPD 64(DI), Z1   \
	VMOVUPD 128(DI), Z2  \
	VMOVUPD 192(DI), Z3  \
	VMOVUPD 256(DI), Z4  \
	VMOVUPD 320(DI), Z5  \
	VMOVUPD 384(DI), Z6  \
	VMOVUPD 448(DI), Z7  \
	VMOVUPD 512(DI), Z8  \
	VMOVUPD 576(DI), Z9  \
	VMOVUPD 640(DI), Z10 \
	VMOVUPD 704(DI), Z11 \
	VMOVUPD 768(DI), Z12 \
	VMOVUPD 832(DI), Z13 \
	VMOVUPD 896(DI), Z14 \
	VMOVUPD 960(DI), Z15

#define STORE512 \
	VMOVUPD Z0, (DI)     \
	VMOVUPD Z1, 64(DI)   \
	VMOVUPD Z2, 128(DI)  \
	VMOVUPD Z3, 192(DI)  \
	VMOVUPD Z4, 256(DI)  \
	VMOVUPD Z5, 320(DI)  \
	VMOVUPD Z6, 384(DI)  \
	VMOVUPD Z7, 448(DI)  \
	VMOVUPD Z8, 512(DI)  \
	VMOVUPD Z9, 576(DI)  \
	VMOVUPD Z10, 640(DI) \
	VMOVUPD Z11, 704(DI) \
	VMOVUPD Z12, 768(DI) \
	VMOVUPD Z13, 832(DI) \
	VMOVUPD Z14, 896(DI) \
	VMOVUPD Z15, 960(DI) \
	VZEROUPPER           \
	RET

// func double512(n int, a *float64, stride int, b, c *float64)
// Go: generic (tile64.go).
TEXT ·double512(SB), NOSPLIT, $0-40
	BEGIN
	LOAD512

row:
	VMOVUPD (BX), Z24
	VMOVUPD 64(BX), Z25
	ROWS512
	ADDQ $128, BX
	DECQ CX
	JNZ  row
	STORE512

// func single512(n int, a *float64, stride int, b *float32, c *float64)
// Go: generic (tile64.go).
TEXT ·single512(SB), NOSPLIT, $0-40
	BEGIN
	LOAD512

row:
	VCVTPS2PD (BX), Z24
	VCVTPS2PD 32(BX), Z25
	ROWS512
	ADDQ $64, BX
	DECQ CX
	JNZ  row
	STORE512

#define ROW256(offset, acc0, acc1, tmp) \
	VBROADCASTSD offset(SI), tmp \
	VFMADD231PD Y8, tmp, acc0    \
	VFMADD231PD Y9, tmp, acc1

#define ROWS256 \
	ROW256(0, Y0, Y1, Y10)  \
	ROW256(8, Y2, Y3, Y11)  \
	ROW256(16, Y4, Y5, Y12) \
	ROW256(24, Y6, Y7, Y13) \
	ADDQ R9, SI

#define LOAD256 \
	VMOVUPD (DI), Y0    \
	VMOVUPD 32(DI), Y1  \
	VMOVUPD 128(DI), Y2 \
	VMOVUPD 160(DI), Y3 \
	VMOVUPD 256(DI), Y4 \
	VMOVUPD 288(DI), Y5 \
	VMOVUPD 384(DI), Y6 \
	VMOVUPD 416(DI), Y7

#define STORE256 \
	VMOVUPD Y0, (DI)    \
	VMOVUPD Y1, 32(DI)  \
	VMOVUPD Y2, 128(DI) \
	VMOVUPD Y3, 160(DI) \
	VMOVUPD Y4, 256(DI) \
	VMOVUPD Y5, 288(DI) \
	VMOVUPD Y6, 384(DI) \
	VMOVUPD Y7, 416(DI) \
	VZEROUPPER          \
	RET

// func double256(n int, a *float64, stride int, b, c *float64)
// A part of 4 rows and 8 columns. Go: generic (tile64.go).
TEXT ·double256(SB), NOSPLIT, $0-40
	BEGIN
	LOAD256

row:
	VMOVUPD (BX), Y8
	VMOVUPD 32(BX), Y9
	ROWS256
	ADDQ $128, BX
	DECQ CX
	JNZ  row
	STORE256

// func single256(n int, a *float64, stride int, b *float32, c *float64)
// A part of 4 rows and 8 columns. Go: generic (tile64.go).
TEXT ·single256(SB), NOSPLIT, $0-40
	BEGIN
	LOAD256

row:
	VCVTPS2PD (BX), Y8
	VCVTPS2PD 16(BX), Y9
	ROWS256
	ADDQ $64, BX
	DECQ CX
	JNZ  row
	STORE256

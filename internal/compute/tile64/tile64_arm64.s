#include "textflag.h"

// Four rows and eight columns at a time: their sums are in V0-V15, those of row i in V(4i) and what follows, a row of b
// in V16-V19. The kernels for b in float64 and in float32 differ in the instructions that load a row of b alone.

#define BEGIN \
	MOVD n+0(FP), R0       \
	MOVD a+8(FP), R1       \
	MOVD stride+16(FP), R2 \
	MOVD b+24(FP), R3      \
	MOVD c+32(FP), R4      \
	LSL  $3, R2            \
	MOVD R4, R5            \
	FLDPQ 0(R5), (F0, F1)    \
	FLDPQ 32(R5), (F2, F3)   \
	ADD  $128, R5          \
	FLDPQ 0(R5), (F4, F5)    \
	FLDPQ 32(R5), (F6, F7)   \
	ADD  $128, R5          \
	FLDPQ 0(R5), (F8, F9)    \
	FLDPQ 32(R5), (F10, F11)   \
	ADD  $128, R5          \
	FLDPQ 0(R5), (F12, F13)    \
	FLDPQ 32(R5), (F14, F15)

// A value of a times the row of b.
#define ROW(tmp, acc0, acc1, acc2, acc3) \
	VLD1R.P 8(R6), [tmp]      \
	VFMLA tmp, V16.D2, acc0   \
	VFMLA tmp, V17.D2, acc1   \
	VFMLA tmp, V18.D2, acc2   \
	VFMLA tmp, V19.D2, acc3

#define ROWS \
	MOVD R1, R6 \
	ROW(V20.D2, V0.D2, V1.D2, V2.D2, V3.D2) \
	ROW(V21.D2, V4.D2, V5.D2, V6.D2, V7.D2) \
	ROW(V22.D2, V8.D2, V9.D2, V10.D2, V11.D2) \
	ROW(V23.D2, V12.D2, V13.D2, V14.D2, V15.D2) \
	ADD  R2, R1

#define STORE \
	FSTPQ (F0, F1), 0(R4)    \
	FSTPQ (F2, F3), 32(R4)   \
	ADD  $128, R4          \
	FSTPQ (F4, F5), 0(R4)    \
	FSTPQ (F6, F7), 32(R4)   \
	ADD  $128, R4          \
	FSTPQ (F8, F9), 0(R4)    \
	FSTPQ (F10, F11), 32(R4)   \
	ADD  $128, R4          \
	FSTPQ (F12, F13), 0(R4)    \
	FSTPQ (F14, F15), 32(R4)   \
	RET

// func doubleNEON(n int, a *float64, stride int, b, c *float64)
// Go: generic (tile64.go).
TEXT ·doubleNEON(SB), NOSPLIT, $0-40
	BEGIN

row:
	FLDPQ (R3), (F16, F17)
	FLDPQ 32(R3), (F18, F19)
	ROWS
	ADD  $128, R3
	SUBS $1, R0
	BNE  row
	STORE

// func singleNEON(n int, a *float64, stride int, b *float32, c *float64)
// Go: generic (tile64.go).
TEXT ·singleNEON(SB), NOSPLIT, $0-40
	BEGIN

row:
	FLDPQ (R3), (F24, F25)
	WORD $0x0e617b10 // fcvtl v16.2d, v24.2s
	WORD $0x4e617b11 // fcvtl2 v17.2d, v24.4s
	WORD $0x0e617b32 // fcvtl v18.2d, v25.2s
	WORD $0x4e617b33 // fcvtl2 v19.2d, v25.4s
	ROWS
	ADD  $64, R3
	SUBS $1, R0
	BNE  row
	STORE

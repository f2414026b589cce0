#include "textflag.h"

// func decodeVectors(dst *float32, src *byte, n int)
TEXT ·decodeVectors(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD n+16(FP), R2
	CBZ  R2, toDone

to8:
	FMOVQ (R1), F0
	WORD $0x0e217802 // fcvtl v2.4s, v0.4h
	WORD $0x4e217803 // fcvtl2 v3.4s, v0.8h
	FSTPQ (F2, F3), (R0)
	ADD   $16, R1
	ADD   $32, R0
	SUBS  $8, R2
	BNE   to8

toDone:
	RET

// func encodeVectors(dst *byte, src *float32, n int)
TEXT ·encodeVectors(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD n+16(FP), R2
	CBZ  R2, fromDone

from8:
	FLDPQ (R1), (F0, F1)
	WORD $0x0e216802 // fcvtn v2.4h, v0.4s
	WORD $0x4e216822 // fcvtn2 v2.8h, v1.4s
	FMOVQ F2, (R0)
	ADD   $32, R1
	ADD   $16, R0
	SUBS  $8, R2
	BNE   from8

fromDone:
	RET

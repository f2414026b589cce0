#include "textflag.h"

// A round of sixteen blocks: words 0 to 3 of all blocks in Z0 to Z3, multipliers in Z4 and Z5, odd lanes in K1, the two keys of the
// round at KEYS(R8).
#define ROUND(KEYS) \
	VPSRLQ $32, Z0, Z7                              \
	VPSRLQ $32, Z2, Z9                              \
	VPMULUDQ Z4, Z0, Z6                             \
	VPMULUDQ Z4, Z7, Z7                             \
	VPMULUDQ Z5, Z2, Z8                             \
	VPMULUDQ Z5, Z9, Z9                             \
	VPSHUFD $0xF5, Z6, Z10                          \
	VPSHUFD $0xF5, Z8, Z11                          \
	VMOVDQA32 Z7, K1, Z10                           \
	VMOVDQA32 Z9, K1, Z11                           \
	VPTERNLOGD.BCST $0x96, (KEYS)(R8), Z1, Z11      \
	VPTERNLOGD.BCST $0x96, (KEYS+4)(R8), Z3, Z10    \
	VPSHUFD $0xA0, Z7, K1, Z6                       \
	VPSHUFD $0xA0, Z9, K1, Z8                       \
	VMOVDQA32 Z11, Z0                               \
	VMOVDQA32 Z8, Z1                                \
	VMOVDQA32 Z10, Z2                               \
	VMOVDQA32 Z6, Z3

// Number in its group of the block in each lane, so that the transposition below leaves the blocks in order.
DATA lanes<>+0(SB)/4, $0
DATA lanes<>+4(SB)/4, $4
DATA lanes<>+8(SB)/4, $8
DATA lanes<>+12(SB)/4, $12
DATA lanes<>+16(SB)/4, $1
DATA lanes<>+20(SB)/4, $5
DATA lanes<>+24(SB)/4, $9
DATA lanes<>+28(SB)/4, $13
DATA lanes<>+32(SB)/4, $2
DATA lanes<>+36(SB)/4, $6
DATA lanes<>+40(SB)/4, $10
DATA lanes<>+44(SB)/4, $14
DATA lanes<>+48(SB)/4, $3
DATA lanes<>+52(SB)/4, $7
DATA lanes<>+56(SB)/4, $11
DATA lanes<>+60(SB)/4, $15
GLOBL lanes<>(SB), RODATA|NOPTR, $64

// func words512(dst *uint32, groups int, keys *[20]uint32, counter *[4]uint32)
TEXT ·words512(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ groups+8(FP), CX
	MOVQ keys+16(FP), R8
	MOVQ counter+24(FP), R9
	MOVL $0xAAAA, AX
	KMOVW AX, K1
	MOVL $0xD2511F53, AX
	VPBROADCASTD AX, Z4
	MOVL $0xCD9E8D57, AX
	VPBROADCASTD AX, Z5
	MOVL $16, AX
	VPBROADCASTD AX, Z12
	VPBROADCASTD (R9), Z13
	VPADDD lanes<>(SB), Z13, Z13

group:
	VMOVDQA32 Z13, Z0
	VPBROADCASTD 4(R9), Z1
	VPBROADCASTD 8(R9), Z2
	VPBROADCASTD 12(R9), Z3
	ROUND(0)
	ROUND(8)
	ROUND(16)
	ROUND(24)
	ROUND(32)
	ROUND(40)
	ROUND(48)
	ROUND(56)
	ROUND(64)
	ROUND(72)
	VPUNPCKLDQ Z1, Z0, Z6
	VPUNPCKLDQ Z3, Z2, Z7
	VPUNPCKHDQ Z1, Z0, Z8
	VPUNPCKHDQ Z3, Z2, Z9
	VPUNPCKLQDQ Z7, Z6, Z0
	VPUNPCKHQDQ Z7, Z6, Z1
	VPUNPCKLQDQ Z9, Z8, Z2
	VPUNPCKHQDQ Z9, Z8, Z3
	VMOVDQU32 Z0, (DI)
	VMOVDQU32 Z1, 64(DI)
	VMOVDQU32 Z2, 128(DI)
	VMOVDQU32 Z3, 192(DI)
	VPADDD Z12, Z13, Z13
	ADDQ $256, DI
	DECQ CX
	JNZ group
	VZEROUPPER
	RET

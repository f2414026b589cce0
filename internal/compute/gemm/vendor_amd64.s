#include "textflag.h"

// func vendor() (b, d, c uint32)
TEXT ·vendor(SB), NOSPLIT, $0-12
	XORL AX, AX
	XORL CX, CX
	CPUID
	MOVL BX, b+0(FP)
	MOVL DX, d+4(FP)
	MOVL CX, c+8(FP)
	RET

#include "textflag.h"

// func legacyCall(nr uintptr) uintptr
TEXT ·legacyCall(SB), NOSPLIT, $0-16
	MOVQ	nr+0(FP), AX
	XORQ	BX, BX
	XORQ	CX, CX
	XORQ	DX, DX
	BYTE	$0xCD; BYTE $0x80	// INT $0x80
	MOVQ	AX, ret+8(FP)
	RET

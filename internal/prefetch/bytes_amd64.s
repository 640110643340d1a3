#include "textflag.h"

// func bytes(b *byte, n int)
//
// A line of 64 bytes at once, and the one that the last byte is in.
TEXT ·bytes(SB), NOSPLIT, $0-16
	MOVQ b+0(FP), SI
	MOVQ n+8(FP), CX
	LEAQ -1(SI)(CX*1), DI

line:
	PREFETCHT0 (SI)
	ADDQ $64, SI
	CMPQ SI, DI
	JLE line
	PREFETCHT0 (DI)
	RET

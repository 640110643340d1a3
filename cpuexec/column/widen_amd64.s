#include "textflag.h"

// func widenVector(to *float64, units *uint32, n int, base, unit float64)
//
// A 32-bit integer in the low bits of the float64 2^52 is that much more than
// 2^52, exactly.
TEXT ·widenVector(SB), NOSPLIT, $0-40
	MOVQ to+0(FP), DI
	MOVQ units+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSD base+24(FP), Y0
	VBROADCASTSD unit+32(FP), Y1
	MOVQ $0x4330000000000000, AX
	VMOVQ AX, X2
	VPBROADCASTQ X2, Y2

loop:
	VPMOVZXDQ (SI), Y3
	VPMOVZXDQ 16(SI), Y4
	VPOR Y2, Y3, Y3
	VPOR Y2, Y4, Y4
	VSUBPD Y2, Y3, Y3
	VSUBPD Y2, Y4, Y4
	VMULPD Y1, Y3, Y3
	VMULPD Y1, Y4, Y4
	VADDPD Y0, Y3, Y3
	VADDPD Y0, Y4, Y4
	VMOVUPD Y3, (DI)
	VMOVUPD Y4, 32(DI)
	ADDQ $32, SI
	ADDQ $64, DI
	SUBQ $8, CX
	JNZ loop

	VZEROUPPER
	RET

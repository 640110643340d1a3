#include "textflag.h"

// func momentsVector(ts *int64, vs *float64, n int, origin int64, thousand float64, out *[8]float64)
//
// Y5 are the sums of x, y, x·y and x², Y6 their compensations; see twoSum.
TEXT ·momentsVector(SB), NOSPLIT, $0-48
	MOVQ ts+0(FP), SI
	MOVQ vs+8(FP), DX
	MOVQ n+16(FP), CX
	MOVQ origin+24(FP), BX
	VMOVSD thousand+32(FP), X15
	MOVQ out+40(FP), DI
	VXORPD Y5, Y5, Y5
	VXORPD Y6, Y6, Y6
	XORQ AX, AX

loop:
	MOVQ (SI)(AX*8), R8
	SUBQ BX, R8
	VXORPD X0, X0, X0
	VCVTSI2SDQ R8, X0, X0
	VDIVSD X15, X0, X0
	VMOVSD (DX)(AX*8), X1
	VUNPCKLPD X1, X0, X2
	VUNPCKLPD X0, X1, X3
	VMOVDDUP X0, X4
	VMULPD X4, X3, X3
	VINSERTF128 $1, X3, Y2, Y2
	VADDPD Y2, Y5, Y7
	VSUBPD Y5, Y7, Y8
	VSUBPD Y8, Y7, Y9
	VSUBPD Y9, Y5, Y9
	VSUBPD Y8, Y2, Y10
	VADDPD Y10, Y9, Y9
	VADDPD Y9, Y6, Y6
	VMOVAPD Y7, Y5
	INCQ AX
	CMPQ AX, CX
	JL loop

	VMOVUPD Y5, (DI)
	VMOVUPD Y6, 32(DI)
	VZEROUPPER
	RET

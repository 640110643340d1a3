#include "textflag.h"

// func sumsVector(val, comp, in *float64, n int) int
//
// Four sums at a time; see cells.sums for what is computed. An error that is not
// finite is the only one that is not 0 when taken from itself.
TEXT ·sumsVector(SB), NOSPLIT, $0-40
	MOVQ val+0(FP), DI
	MOVQ comp+8(FP), SI
	MOVQ in+16(FP), DX
	MOVQ n+24(FP), CX
	XORQ AX, AX

loop:
	VMOVUPD (DI)(AX*8), Y0
	VMOVUPD (DX)(AX*8), Y1
	VADDPD Y1, Y0, Y2
	VSUBPD Y0, Y2, Y3
	VSUBPD Y3, Y2, Y4
	VSUBPD Y4, Y0, Y4
	VSUBPD Y3, Y1, Y5
	VADDPD Y5, Y4, Y4
	VSUBPD Y4, Y4, Y5
	VPTEST Y5, Y5
	JNZ done
	VADDPD (SI)(AX*8), Y4, Y4
	VMOVUPD Y2, (DI)(AX*8)
	VMOVUPD Y4, (SI)(AX*8)
	ADDQ $4, AX
	CMPQ AX, CX
	JL loop

done:
	VZEROUPPER
	MOVQ AX, ret+32(FP)
	RET

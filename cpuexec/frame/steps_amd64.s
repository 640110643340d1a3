#include "textflag.h"

// SECONDS makes Y of ms, which are integers below 2^31, seconds: the quotient by 1000 as it is
// rounded. A product with 1/1000 is at most two units of the last place off, what remains of Y
// is exact, and no such quotient is so near to the middle between two floats that what the
// second product is off by would matter. Y14 is 1000, Y13 is 1/1000.
#define SECONDS(Y, Q) \
	VMULPD Y13, Y, Q; \
	VFNMADD231PD Q, Y14, Y; \
	VFMADD213PD Q, Y13, Y

// func spreadVector(lo, hi *int32, n int) (least, most int32, total int64)
TEXT ·spreadVector(SB), NOSPLIT, $0-40
	MOVQ lo+0(FP), R8
	MOVQ hi+8(FP), R9
	MOVQ n+16(FP), CX
	XORQ AX, AX
	VPCMPEQD Y3, Y3, Y3
	VPSRLD $1, Y3, Y3
	VPXOR Y4, Y4, Y4
	VPXOR Y5, Y5, Y5

loop:
	VMOVDQU (R9)(AX*4), Y0
	VPSUBD (R8)(AX*4), Y0, Y0
	VPMINSD Y0, Y3, Y3
	VPMAXSD Y0, Y4, Y4
	VPMOVZXDQ X0, Y1
	VEXTRACTI128 $1, Y0, X2
	VPMOVZXDQ X2, Y2
	VPADDQ Y1, Y5, Y5
	VPADDQ Y2, Y5, Y5
	ADDQ $8, AX
	CMPQ AX, CX
	JL loop

	VEXTRACTI128 $1, Y3, X0
	VPMINSD X0, X3, X3
	VPSHUFD $0x4e, X3, X0
	VPMINSD X0, X3, X3
	VPSHUFD $0xb1, X3, X0
	VPMINSD X0, X3, X3
	VMOVD X3, AX
	MOVL AX, least+24(FP)
	VEXTRACTI128 $1, Y4, X0
	VPMAXSD X0, X4, X4
	VPSHUFD $0x4e, X4, X0
	VPMAXSD X0, X4, X4
	VPSHUFD $0xb1, X4, X0
	VPMAXSD X0, X4, X4
	VMOVD X4, AX
	MOVL AX, most+28(FP)
	VEXTRACTI128 $1, Y5, X0
	VPADDQ X0, X5, X5
	VPSHUFD $0x4e, X5, X0
	VPADDQ X0, X5, X5
	VMOVQ X5, AX
	MOVQ AX, total+32(FP)
	VZEROUPPER
	RET

// func extrapolationsVector(factors, nears *float64, lo, hi *int32, n int, c *[6]float64, times, plus float64) int
TEXT ·extrapolationsVector(SB), NOSPLIT, $0-72
	MOVQ factors+0(FP), DI
	MOVQ nears+8(FP), SI
	MOVQ lo+16(FP), R8
	MOVQ hi+24(FP), R9
	MOVQ n+32(FP), CX
	MOVQ c+40(FP), R10
	MOVQ 32(R10), R13 // 0 for factors that nothing divides
	VBROADCASTSD 0(R10), Y15
	VBROADCASTSD 8(R10), Y14
	VBROADCASTSD 16(R10), Y13
	VBROADCASTSD 24(R10), Y12
	VBROADCASTSD 32(R10), Y11
	VBROADCASTSD 40(R10), Y10
	VBROADCASTSD times+48(FP), Y9
	VBROADCASTSD plus+56(FP), Y8
	VPCMPEQD X7, X7, X7
	XORQ AX, AX

loop:
	VMOVDQU (R9)(AX*4), X0
	VPSUBD (R8)(AX*4), X0, X0
	VPADDD X7, X0, X0
	VCVTDQ2PD X0, Y0
	VMOVUPD (SI)(AX*8), Y1
	VXORPD Y2, Y2, Y2
	VSUBPD (DI)(AX*8), Y2, Y2
	VSUBPD Y1, Y15, Y3
	VSUBPD Y2, Y3, Y3
	VMAXPD Y1, Y2, Y4
	VMULPD Y0, Y4, Y4
	VMULPD Y12, Y3, Y5
	VCMPPD $1, Y5, Y4, Y4
	VCMPPD $2, Y0, Y10, Y0
	VANDPD Y0, Y4, Y4
	VMOVMSKPD Y4, R11
	CMPL R11, $15
	JNE done
	SECONDS(Y1, Y4)
	SECONDS(Y2, Y5)
	SECONDS(Y3, Y6)
	VADDPD Y1, Y3, Y1
	VADDPD Y2, Y1, Y1
	VDIVPD Y3, Y1, Y1
	VSUBPD Y10, Y1, Y2
	VMULPD Y9, Y2, Y2
	VADDPD Y8, Y2, Y2
	VMOVUPD Y2, (SI)(AX*8)
	TESTQ R13, R13
	JZ whole
	VDIVPD Y11, Y1, Y1

whole:
	VMOVUPD Y1, (DI)(AX*8)
	ADDQ $4, AX
	CMPQ AX, CX
	JL loop

done:
	VZEROUPPER
	MOVQ AX, ret+64(FP)
	RET

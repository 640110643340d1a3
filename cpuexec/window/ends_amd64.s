#include "textflag.h"

// SECONDS makes Y of ms, which are integers below 2^31, seconds: the quotient by 1000 as it is
// rounded. A product with 1/1000 is at most two units of the last place off, what remains of Y
// is exact, and no such quotient is so near to the middle between two floats that what the
// second product is off by would matter. Y14 is 1000, Y13 is 1/1000.
#define SECONDS(Y, Q) \
	VMULPD Y13, Y, Q; \
	VFNMADD231PD Q, Y14, Y; \
	VFMADD213PD Q, Y13, Y

// UNPACK makes four units of X(n) the values of Y(n): a 32-bit integer in the low bits
// of the float64 2^52 is that much more than 2^52, exactly. Y13 is 2^52, Y14 the unit,
// Y15 the base.
#define UNPACK(X, Y) \
	VPMOVZXDQ X, Y; \
	VPOR Y13, Y, Y; \
	VSUBPD Y13, Y, Y; \
	VMULPD Y14, Y, Y; \
	VADDPD Y15, Y, Y

// UNITS loads the four units at the indices at idx into X. What the instruction that
// gathers does is slower where the units come from memory.
#define UNITS(idx, units, X) \
	MOVLQSX 0(idx)(AX*4), R11; \
	MOVLQSX 4(idx)(AX*4), R12; \
	MOVLQSX 8(idx)(AX*4), R13; \
	MOVLQSX 12(idx)(AX*4), BX; \
	VMOVD (units)(R11*4), X; \
	VPINSRD $1, (units)(R12*4), X, X; \
	VPINSRD $2, (units)(R13*4), X, X; \
	VPINSRD $3, (units)(BX*4), X, X

// FLOATS loads the four values at the indices at idx into Y, whose lower half X is.
#define FLOATS(idx, vs, X, Y) \
	MOVLQSX 0(idx)(AX*4), R11; \
	MOVLQSX 4(idx)(AX*4), R12; \
	MOVLQSX 8(idx)(AX*4), R13; \
	MOVLQSX 12(idx)(AX*4), BX; \
	VMOVSD (vs)(R11*8), X; \
	VMOVHPD (vs)(R12*8), X, X; \
	VMOVSD (vs)(R13*8), X9; \
	VMOVHPD (vs)(BX*8), X9, X9; \
	VINSERTF128 $1, X9, Y, Y

#define PACKING(base, unit) \
	VBROADCASTSD base, Y15; \
	VBROADCASTSD unit, Y14; \
	MOVQ $0x4330000000000000, AX; \
	VMOVQ AX, X13; \
	VPBROADCASTQ X13, Y13

// TWO goes to done if one of the next four windows has less than two samples: X12 are ones.
#define TWO \
	VMOVDQU (R8)(AX*4), X0; \
	VMOVDQU (R9)(AX*4), X1; \
	VPSUBD X0, X1, X2; \
	VPCMPGTD X12, X2, X2; \
	VMOVMSKPS X2, R11; \
	CMPL R11, $15; \
	JNE done

// VALUES makes Y4 the packed samples at the indices at idx, and Y5 those before the ones at R9.
#define VALUES(idx) \
	UNITS(idx, SI, X4); \
	UNITS(R9, DX, X5); \
	UNPACK(X4, Y4); \
	UNPACK(X5, Y5)

// INCREASES stores what Y5, the last samples, and Y4, the first, come to. Y11 is tiny.
#define INCREASES \
	VSUBPD Y4, Y5, Y5; \
	VMULPD (R15)(AX*8), Y5, Y6; \
	VADDPD Y11, Y6, Y6; \
	VCMPPD $2, Y6, Y4, Y6; \
	VPTEST Y6, Y6; \
	JNZ done; \
	VMULPD (R10)(AX*8), Y5, Y5; \
	VMOVUPD Y5, (DI)(AX*8)

// DELTAS stores the differences between Y5 and Y4, times factors.
#define DELTAS \
	VSUBPD Y4, Y5, Y5; \
	VMULPD (R10)(AX*8), Y5, Y5; \
	VMOVUPD Y5, (DI)(AX*8)

// func packedIncreasesVector(out *float64, units *uint32, lo, hi *int32, factors, near *float64, n int, base, unit, tiny float64) int
TEXT ·packedIncreasesVector(SB), NOSPLIT, $0-88
	PACKING(base+56(FP), unit+64(FP))
	VBROADCASTSD tiny+72(FP), Y11
	MOVQ out+0(FP), DI
	MOVQ units+8(FP), SI
	LEAQ -4(SI), DX
	MOVQ lo+16(FP), R8
	MOVQ hi+24(FP), R9
	MOVQ factors+32(FP), R10
	MOVQ near+40(FP), R15
	MOVQ n+48(FP), CX
	XORQ AX, AX
	VPCMPEQD X12, X12, X12
	VPSRLD $31, X12, X12

loop:
	TWO
	VALUES(R8)
	INCREASES
	ADDQ $4, AX
	CMPQ AX, CX
	JL loop

done:
	VZEROUPPER
	MOVQ AX, ret+80(FP)
	RET

// func floatIncreasesVector(out, vs *float64, lo, hi *int32, factors, near *float64, n int, tiny float64) int
TEXT ·floatIncreasesVector(SB), NOSPLIT, $0-72
	VBROADCASTSD tiny+56(FP), Y11
	MOVQ out+0(FP), DI
	MOVQ vs+8(FP), SI
	LEAQ -8(SI), DX
	MOVQ lo+16(FP), R8
	MOVQ hi+24(FP), R9
	MOVQ factors+32(FP), R10
	MOVQ near+40(FP), R15
	MOVQ n+48(FP), CX
	XORQ AX, AX
	VPCMPEQD X12, X12, X12
	VPSRLD $31, X12, X12

loop:
	TWO
	FLOATS(R8, SI, X4, Y4)
	FLOATS(R9, DX, X5, Y5)
	INCREASES
	ADDQ $4, AX
	CMPQ AX, CX
	JL loop

done:
	VZEROUPPER
	MOVQ AX, ret+64(FP)
	RET

// func packedLastVector(out *float64, units *uint32, hi *int32, n int, base, unit float64) int
TEXT ·packedLastVector(SB), NOSPLIT, $0-56
	PACKING(base+32(FP), unit+40(FP))
	MOVQ out+0(FP), DI
	MOVQ units+8(FP), SI
	LEAQ -4(SI), DX
	MOVQ hi+16(FP), R9
	MOVQ n+24(FP), CX
	XORQ AX, AX
	VPXOR X12, X12, X12

loop:
	VMOVDQU (R9)(AX*4), X1
	VPCMPGTD X12, X1, X2
	VMOVMSKPS X2, R11
	CMPL R11, $15
	JNE done
	UNITS(R9, DX, X4)
	UNPACK(X4, Y4)
	VMOVUPD Y4, (DI)(AX*8)
	ADDQ $4, AX
	CMPQ AX, CX
	JL loop

done:
	VZEROUPPER
	MOVQ AX, ret+48(FP)
	RET

// func packedPairsVector(out *float64, units *uint32, hi *int32, seconds *float64, n int, base, unit float64) int
TEXT ·packedPairsVector(SB), NOSPLIT, $0-64
	PACKING(base+40(FP), unit+48(FP))
	MOVQ out+0(FP), DI
	MOVQ units+8(FP), SI
	LEAQ -4(SI), DX
	LEAQ -8(SI), SI
	MOVQ hi+16(FP), R9
	MOVQ seconds+24(FP), R10
	MOVQ n+32(FP), CX
	XORQ AX, AX

loop:
	VALUES(R9)
	VCMPPD $1, Y4, Y5, Y6
	VPTEST Y6, Y6
	JNZ done
	VSUBPD Y4, Y5, Y5
	VDIVPD (R10)(AX*8), Y5, Y5
	VMOVUPD Y5, (DI)(AX*8)
	ADDQ $4, AX
	CMPQ AX, CX
	JL loop

done:
	VZEROUPPER
	MOVQ AX, ret+56(FP)
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

// func packedDeltasVector(out *float64, units *uint32, lo, hi *int32, factors *float64, n int, base, unit float64) int
TEXT ·packedDeltasVector(SB), NOSPLIT, $0-72
	PACKING(base+48(FP), unit+56(FP))
	MOVQ out+0(FP), DI
	MOVQ units+8(FP), SI
	LEAQ -4(SI), DX
	MOVQ lo+16(FP), R8
	MOVQ hi+24(FP), R9
	MOVQ factors+32(FP), R10
	MOVQ n+40(FP), CX
	XORQ AX, AX
	VPCMPEQD X12, X12, X12
	VPSRLD $31, X12, X12

loop:
	TWO
	VALUES(R8)
	DELTAS
	ADDQ $4, AX
	CMPQ AX, CX
	JL loop

done:
	VZEROUPPER
	MOVQ AX, ret+64(FP)
	RET

// func floatDeltasVector(out, vs *float64, lo, hi *int32, factors *float64, n int) int
TEXT ·floatDeltasVector(SB), NOSPLIT, $0-56
	MOVQ out+0(FP), DI
	MOVQ vs+8(FP), SI
	LEAQ -8(SI), DX
	MOVQ lo+16(FP), R8
	MOVQ hi+24(FP), R9
	MOVQ factors+32(FP), R10
	MOVQ n+40(FP), CX
	XORQ AX, AX
	VPCMPEQD X12, X12, X12
	VPSRLD $31, X12, X12

loop:
	TWO
	FLOATS(R8, SI, X4, Y4)
	FLOATS(R9, DX, X5, Y5)
	DELTAS
	ADDQ $4, AX
	CMPQ AX, CX
	JL loop

done:
	VZEROUPPER
	MOVQ AX, ret+48(FP)
	RET

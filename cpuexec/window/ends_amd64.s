#include "textflag.h"

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

// INCREASES stores what Y5, the last samples, and Y4, the first, come to. Y11 is least.
#define INCREASES \
	VSUBPD Y4, Y5, Y5; \
	VMULPD (R15)(AX*8), Y5, Y6; \
	VADDPD Y11, Y6, Y6; \
	VCMPPD $2, Y6, Y4, Y6; \
	VPTEST Y6, Y6; \
	JNZ done; \
	VMULPD (R10)(AX*8), Y5, Y5; \
	VMOVUPD Y5, (DI)(AX*8)

// func packedIncreasesVector(out *float64, units *uint32, lo, hi *int32, factors, near *float64, n int, base, unit, least float64) int
TEXT ·packedIncreasesVector(SB), NOSPLIT, $0-88
	PACKING(base+56(FP), unit+64(FP))
	VBROADCASTSD least+72(FP), Y11
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

// func floatIncreasesVector(out, vs *float64, lo, hi *int32, factors, near *float64, n int, least float64) int
TEXT ·floatIncreasesVector(SB), NOSPLIT, $0-72
	VBROADCASTSD least+56(FP), Y11
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

// func packedPairsVector(out *float64, units *uint32, hi *int32, seconds *float64, n int, base, unit float64)
//
// A last value that is less than the one before is taken from 0.
TEXT ·packedPairsVector(SB), NOSPLIT, $0-56
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
	VANDNPD Y4, Y6, Y4
	VSUBPD Y4, Y5, Y5
	VDIVPD (R10)(AX*8), Y5, Y5
	VMOVUPD Y5, (DI)(AX*8)
	ADDQ $4, AX
	CMPQ AX, CX
	JL loop

	VZEROUPPER
	RET

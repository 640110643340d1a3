#include "textflag.h"

// The even ones of eight 32-bit integers.
DATA evens<>+0(SB)/8, $0x0000000200000000
DATA evens<>+8(SB)/8, $0x0000000600000004
GLOBL evens<>(SB), RODATA|NOPTR, $16

// 0 to 7.
DATA counting<>+0(SB)/8, $0x0000000100000000
DATA counting<>+8(SB)/8, $0x0000000300000002
DATA counting<>+16(SB)/8, $0x0000000500000004
DATA counting<>+24(SB)/8, $0x0000000700000006
GLOBL counting<>(SB), RODATA|NOPTR, $32

// func nearestAVX2(count, before, after *int32, late *uint16, n int, c *[11]int64)
//
// A moment is rest ms after sample j is due. Where j has come, j and j+1 are nearest, else j-1 and
// j: how late these are is in the six bytes from late[j-1] on, shifted by two where j has come.
//
// Y0 are the j of four moments, Y1 the rests.
TEXT ·nearestAVX2(SB), NOSPLIT, $0-48
	MOVQ count+0(FP), DI
	MOVQ before+8(FP), R8
	MOVQ after+16(FP), R9
	MOVQ late+24(FP), SI
	MOVQ n+32(FP), CX
	MOVQ c+40(FP), R10
	VMOVDQU 0(R10), Y0
	VMOVDQU 32(R10), Y1
	VPBROADCASTQ 64(R10), Y15
	VPBROADCASTQ 72(R10), Y14
	VPBROADCASTQ 80(R10), Y13
	VPCMPEQD Y12, Y12, Y12
	VPSRLQ $48, Y12, Y11
	VPSRLQ $63, Y12, Y10
	VPSLLQ $4, Y10, Y10
	VBROADCASTI128 evens<>(SB), Y9
	XORQ AX, AX

loop:
	VMOVQ X0, R11
	VPEXTRQ $1, X0, R12
	VEXTRACTI128 $1, Y0, X2
	VMOVQ X2, R13
	VPEXTRQ $1, X2, BX
	VMOVQ -2(SI)(R11*2), X2
	VPINSRQ $1, -2(SI)(R12*2), X2, X2
	VMOVQ -2(SI)(R13*2), X3
	VPINSRQ $1, -2(SI)(BX*2), X3, X3
	VINSERTI128 $1, X3, Y2, Y2
	VPSRLQ $16, Y2, Y3
	VPAND Y11, Y3, Y3
	VPCMPGTQ Y1, Y3, Y3 // has not come
	VPANDN Y10, Y3, Y4
	VPSRLVQ Y4, Y2, Y2
	VPAND Y11, Y2, Y4
	VPSRLQ $16, Y2, Y2
	VPAND Y11, Y2, Y2
	VPAND Y13, Y3, Y5
	VPADDQ Y1, Y5, Y5 // how long the last one has been due
	VPSUBQ Y4, Y5, Y4
	VPSUBQ Y5, Y13, Y5
	VPADDQ Y5, Y2, Y2
	VPSUBQ Y12, Y0, Y6
	VPADDQ Y3, Y6, Y6
	VPERMD Y6, Y9, Y6
	VPERMD Y4, Y9, Y4
	VPERMD Y2, Y9, Y2
	VMOVDQU X6, (DI)(AX*4)
	VMOVDQU X4, (R8)(AX*4)
	VMOVDQU X2, (R9)(AX*4)
	VPADDQ Y14, Y1, Y1
	VPADDQ Y15, Y0, Y0
	VPCMPGTQ Y1, Y13, Y3 // no further one is due
	VPANDN Y13, Y3, Y4
	VPSUBQ Y4, Y1, Y1
	VPADDQ Y3, Y0, Y0
	ADDQ $4, AX
	CMPQ AX, CX
	JL loop

	VZEROUPPER
	RET

// func apartAVX2(out *float64, to *int32, late *uint16, n int, every int64)
TEXT ·apartAVX2(SB), NOSPLIT, $0-40
	MOVQ out+0(FP), DI
	MOVQ to+8(FP), R8
	MOVQ late+16(FP), SI
	MOVQ n+24(FP), CX
	VPBROADCASTD every+32(FP), X15
	MOVL $1000, AX
	VMOVD AX, X14
	VCVTDQ2PD X14, X14
	VBROADCASTSD X14, Y14
	XORQ AX, AX

loop:
	MOVLQSX 0(R8)(AX*4), R11
	MOVLQSX 4(R8)(AX*4), R12
	MOVLQSX 8(R8)(AX*4), R13
	MOVLQSX 12(R8)(AX*4), BX
	VMOVD -4(SI)(R11*2), X0
	VPINSRD $1, -4(SI)(R12*2), X0, X0
	VPINSRD $2, -4(SI)(R13*2), X0, X0
	VPINSRD $3, -4(SI)(BX*2), X0, X0
	VPSRLD $16, X0, X1
	VPSLLD $16, X0, X0
	VPSRLD $16, X0, X0
	VPSUBD X0, X1, X1
	VPADDD X15, X1, X1
	VCVTDQ2PD X1, Y1
	VDIVPD Y14, Y1, Y1
	VMOVUPD Y1, (DI)(AX*8)
	ADDQ $4, AX
	CMPQ AX, CX
	JL loop

	VZEROUPPER
	RET

// func nearestComeAVX2(counts, before, after *int32, late *uint16, n int, stride, count, rest, every int64)
TEXT ·nearestComeAVX2(SB), NOSPLIT, $0-72
	MOVQ counts+0(FP), DI
	MOVQ before+8(FP), R8
	MOVQ after+16(FP), R9
	MOVQ late+24(FP), SI
	MOVQ n+32(FP), CX
	MOVQ stride+40(FP), R10
	VMOVD R10, X15
	VPBROADCASTD X15, Y15
	VPMULLD counting<>(SB), Y15, Y0
	VPSLLD $3, Y15, Y15
	VPBROADCASTD count+48(FP), Y1
	VPADDD Y1, Y0, Y0
	VPBROADCASTD rest+56(FP), Y14
	VPBROADCASTD every+64(FP), Y13
	VPSUBD Y14, Y13, Y13
	VPCMPEQD Y12, Y12, Y12
	VPSRLD $16, Y12, Y12
	ADDQ R10, R10
	LEAQ (R10)(R10*2), R11
	XORQ AX, AX

loop:
	LEAQ (SI)(R10*4), R12
	VMOVD (SI), X2
	VPINSRD $1, (SI)(R10*1), X2, X2
	VPINSRD $2, (SI)(R10*2), X2, X2
	VPINSRD $3, (SI)(R11*1), X2, X2
	VMOVD (R12), X3
	VPINSRD $1, (R12)(R10*1), X3, X3
	VPINSRD $2, (R12)(R10*2), X3, X3
	VPINSRD $3, (R12)(R11*1), X3, X3
	VINSERTI128 $1, X3, Y2, Y2
	VPAND Y12, Y2, Y3
	VPSRLD $16, Y2, Y2
	VPSUBD Y3, Y14, Y3
	VPADDD Y13, Y2, Y2
	VMOVDQU Y0, (DI)(AX*4)
	VMOVDQU Y3, (R8)(AX*4)
	VMOVDQU Y2, (R9)(AX*4)
	VPADDD Y15, Y0, Y0
	LEAQ (R12)(R10*4), SI
	ADDQ $8, AX
	CMPQ AX, CX
	JL loop

	VZEROUPPER
	RET

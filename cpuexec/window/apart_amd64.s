#include "textflag.h"
#include "seconds_amd64.h"

// func shapesAVX2(factors, nears *float64, lo, hi, lead, trail *int32, n int, c *[8]float64, times, plus float64)
//
// Windows are usually full: their samples begin and end less than a distance from their ends, and
// no distance is needed. It is divided where that is not certain of one of four windows.
TEXT ·shapesAVX2(SB), NOSPLIT, $0-80
	MOVQ factors+0(FP), DI
	MOVQ nears+8(FP), SI
	MOVQ lo+16(FP), R8
	MOVQ hi+24(FP), R9
	MOVQ lead+32(FP), R11
	MOVQ trail+40(FP), R12
	MOVQ n+48(FP), CX
	MOVQ c+56(FP), R10
	MOVQ 32(R10), R13 // 0 for factors that nothing divides
	VBROADCASTSD 0(R10), Y15
	VBROADCASTSD 8(R10), Y14
	VBROADCASTSD 16(R10), Y13
	VBROADCASTSD 24(R10), Y12
	VBROADCASTSD 32(R10), Y11
	VBROADCASTSD 40(R10), Y10
	VBROADCASTSD times+64(FP), Y9
	VBROADCASTSD plus+72(FP), Y8
	VPCMPEQD Y7, Y7, Y7
	XORQ AX, AX

loop:
	VMOVDQU (R9)(AX*4), X0
	VPSUBD (R8)(AX*4), X0, X0
	VPADDD X7, X0, X0
	VCVTDQ2PD X0, Y0 // samples less one
	VCVTDQ2PD (R11)(AX*4), Y1 // ms to the first
	VCVTDQ2PD (R12)(AX*4), Y2 // from the last
	VSUBPD Y1, Y15, Y3
	VSUBPD Y2, Y3, Y3 // between them
	VMAXPD Y1, Y2, Y4
	VMULPD Y0, Y4, Y4
	VMULPD Y12, Y3, Y5
	VCMPPD $1, Y5, Y4, Y4
	VMOVMSKPD Y4, BX
	SECONDS(Y1, Y4)
	SECONDS(Y2, Y5)
	SECONDS(Y3, Y6)
	CMPL BX, $15
	JNE half

full:
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

	VZEROUPPER
	RET

half:
	VBROADCASTSD 48(R10), Y4
	VBROADCASTSD 56(R10), Y5
	VDIVPD Y0, Y3, Y0
	VMULPD Y0, Y4, Y4 // from here on half a distance
	VMULPD Y0, Y5, Y5
	VCMPPD $13, Y4, Y1, Y6
	VBLENDVPD Y6, Y5, Y1, Y1
	VCMPPD $13, Y4, Y2, Y6
	VBLENDVPD Y6, Y5, Y2, Y2
	JMP full

// SECONDS8 is SECONDS of eight.
#define SECONDS8(Z, Q) \
	VMULPD Z13, Z, Q; \
	VFNMADD231PD Q, Z14, Z; \
	VFMADD213PD Q, Z13, Z

// func shapesAVX512(factors, nears *float64, lo, hi, lead, trail *int32, n int, c *[8]float64, times, plus float64)
TEXT ·shapesAVX512(SB), NOSPLIT, $0-80
	MOVQ factors+0(FP), DI
	MOVQ nears+8(FP), SI
	MOVQ lo+16(FP), R8
	MOVQ hi+24(FP), R9
	MOVQ lead+32(FP), R11
	MOVQ trail+40(FP), R12
	MOVQ n+48(FP), CX
	MOVQ c+56(FP), R10
	MOVQ 32(R10), R13 // 0 for factors that nothing divides
	VBROADCASTSD 0(R10), Z15
	VBROADCASTSD 8(R10), Z14
	VBROADCASTSD 16(R10), Z13
	VBROADCASTSD 24(R10), Z12
	VBROADCASTSD 32(R10), Z11
	VBROADCASTSD 40(R10), Z10
	VBROADCASTSD times+64(FP), Z9
	VBROADCASTSD plus+72(FP), Z8
	VPCMPEQD Y7, Y7, Y7
	XORQ AX, AX

loop:
	VMOVDQU (R9)(AX*4), Y0
	VPSUBD (R8)(AX*4), Y0, Y0
	VPADDD Y7, Y0, Y0
	VCVTDQ2PD Y0, Z0 // samples less one
	VCVTDQ2PD (R11)(AX*4), Z1 // ms to the first
	VCVTDQ2PD (R12)(AX*4), Z2 // from the last
	VSUBPD Z1, Z15, Z3
	VSUBPD Z2, Z3, Z3 // between them
	VMAXPD Z1, Z2, Z4
	VMULPD Z0, Z4, Z4
	VMULPD Z12, Z3, Z5
	VCMPPD $1, Z5, Z4, K1
	KMOVW K1, BX
	SECONDS8(Z1, Z4)
	SECONDS8(Z2, Z5)
	SECONDS8(Z3, Z6)
	CMPL BX, $255
	JNE half

full:
	VADDPD Z1, Z3, Z1
	VADDPD Z2, Z1, Z1
	VDIVPD Z3, Z1, Z1
	VSUBPD Z10, Z1, Z2
	VMULPD Z9, Z2, Z2
	VADDPD Z8, Z2, Z2
	VMOVUPD Z2, (SI)(AX*8)
	TESTQ R13, R13
	JZ whole
	VDIVPD Z11, Z1, Z1

whole:
	VMOVUPD Z1, (DI)(AX*8)
	ADDQ $8, AX
	CMPQ AX, CX
	JL loop

	VZEROUPPER
	RET

half:
	VBROADCASTSD 48(R10), Z4
	VBROADCASTSD 56(R10), Z5
	VDIVPD Z0, Z3, Z0
	VMULPD Z0, Z4, Z4 // from here on half a distance
	VMULPD Z0, Z5, Z5
	VCMPPD $13, Z4, Z1, K1
	VMOVAPD Z5, K1, Z1
	VCMPPD $13, Z4, Z2, K1
	VMOVAPD Z5, K1, Z2
	JMP full

#include "textflag.h"
#include "go_asm.h"

// NEXT puts the next value of each run into Z10, in the lanes K1 of runs that have one: Z0 is
// where it is among all values, Z1 how many the run has left. Z10 does not wait for the value before.
#define NEXT \
	VPCMPQ $6, Z30, Z1, K1; \
	KMOVB K1, K2; \
	VPXORQ Z10, Z10, Z10; \
	VGATHERQPD (DI)(Z0*8), K2, Z10; \
	VPADDQ Z31, Z0, Z0; \
	VPSUBQ Z31, Z1, Z1

// ADD adds v to sum and its rounding error to c, as addFinite does, in the lanes of mask.
#define ADD(v, sum, c, mask) \
	VADDPD v, sum, Z11; \
	VSUBPD sum, Z11, Z12; \
	VSUBPD Z12, Z11, Z13; \
	VSUBPD Z13, sum, Z13; \
	VSUBPD Z12, v, Z14; \
	VADDPD Z14, Z13, Z13; \
	VADDPD Z13, c, mask, c; \
	VMOVAPD Z11, mask, sum

// FINITE takes lanes out of K3 in which x is not finite.
#define FINITE(x) \
	VSUBPD x, x, Z11; \
	VCMPPD $0, Z30, Z11, K3, K3

// Where First and End, 32 bits each, of eight runs are.
DATA ·places<>+0(SB)/8, $(4+0*12)
DATA ·places<>+8(SB)/8, $(4+1*12)
DATA ·places<>+16(SB)/8, $(4+2*12)
DATA ·places<>+24(SB)/8, $(4+3*12)
DATA ·places<>+32(SB)/8, $(4+4*12)
DATA ·places<>+40(SB)/8, $(4+5*12)
DATA ·places<>+48(SB)/8, $(4+6*12)
DATA ·places<>+56(SB)/8, $(4+7*12)
GLOBL ·places<>(SB), RODATA|NOPTR, $64

// BEGIN has the places of the runs' values in Z0, how many they are in Z1, as floats in Z15, and
// zeros in Z2 to Z9.
#define BEGIN \
	MOVQ values+0(FP), DI; \
	MOVQ runs+8(FP), BX; \
	MOVQ e+16(FP), SI; \
	MOVQ eight_most(SI), CX; \
	KMOVB eight_which(SI), K2; \
	VMOVDQU64 ·places<>(SB), Z2; \
	VPXORQ Z1, Z1, Z1; \
	VPGATHERQQ (BX)(Z2*1), K2, Z1; \
	VPSLLQ $32, Z1, Z0; \
	VPSRAQ $32, Z0, Z0; \
	VPSRAQ $32, Z1, Z1; \
	VPSUBQ Z0, Z1, Z1; \
	VCVTQQ2PD Z1, Z15; \
	VPXORQ Z30, Z30, Z30; \
	MOVQ $1, AX; \
	VPBROADCASTQ AX, Z31; \
	VPXORQ Z2, Z2, Z2; \
	VPXORQ Z3, Z3, Z3; \
	VPXORQ Z4, Z4, Z4; \
	VPXORQ Z5, Z5, Z5; \
	VPXORQ Z6, Z6, Z6; \
	VPXORQ Z7, Z7, Z7; \
	VPXORQ Z8, Z8, Z8; \
	VPXORQ Z9, Z9, Z9

// SUMS stores the sums of Z2 and Z3, and means, and looks which are finite.
#define SUMS \
	VMOVUPD Z2, eight_sum(SI); \
	VMOVUPD Z3, eight_c(SI); \
	VDIVPD Z15, Z2, Z11; \
	VDIVPD Z15, Z3, Z12; \
	VADDPD Z12, Z11, Z11; \
	VMOVUPD Z11, eight_mean(SI); \
	KXNORB K3, K3, K3; \
	FINITE(Z2); \
	FINITE(Z3)

// func sumEight(values *float64, runs *bucket.Run, e *eight)
TEXT ·sumEight(SB), NOSPLIT, $0-24
	BEGIN

sample:
	NEXT
	ADD(Z10, Z2, Z3, K1)
	DECQ CX
	JNZ sample

	SUMS
	KMOVB K3, AX
	MOVB AX, eight_finite(SI)
	VZEROUPPER
	RET

// func visitEight(values *float64, runs *bucket.Run, e *eight)
//
//	Z2, Z3 sum   Z4, Z5 least and largest value   Z16 first value
//	Z6, Z7 distances from that   Z8, Z9 their squares   Z17, Z18 the same of a block
TEXT ·visitEight(SB), NOSPLIT, $0-24
	BEGIN
	VPCMPQ $6, Z30, Z1, K2
	VPXORQ Z16, Z16, Z16
	VGATHERQPD (DI)(Z0*8), K2, Z16
	VMOVAPD Z16, Z4
	VMOVAPD Z16, Z5

samples:
	MOVQ $const_block, DX
	CMPQ CX, DX
	CMOVQLT CX, DX
	SUBQ DX, CX
	VPCMPQ $6, Z30, Z1, K4
	VPXORQ Z17, Z17, Z17
	VPXORQ Z18, Z18, Z18

sample:
	NEXT
	ADD(Z10, Z2, Z3, K1)
	VMINPD Z4, Z10, K1, Z4
	VMAXPD Z5, Z10, K1, Z5
	VSUBPD Z16, Z10, Z11
	VADDPD Z11, Z17, K1, Z17
	VMULPD Z11, Z11, Z11
	VADDPD Z11, Z18, K1, Z18
	DECQ DX
	JNZ sample

	ADD(Z17, Z6, Z7, K4)
	ADD(Z18, Z8, Z9, K4)
	TESTQ CX, CX
	JNZ samples

	SUMS
	FINITE(Z8)
	KMOVB K3, AX
	MOVB AX, eight_finite(SI)
	VMOVUPD Z4, eight_least(SI)
	VMOVUPD Z5, eight_largest(SI)
	VADDPD Z7, Z6, Z6
	VMULPD Z6, Z6, Z6
	VDIVPD Z15, Z6, Z6
	VSUBPD Z6, Z8, Z8
	VADDPD Z9, Z8, Z8
	VCMPPD $1, Z30, Z8, K2
	VMOVAPD Z30, K2, Z8
	VMOVUPD Z8, eight_squares(SI)
	VZEROUPPER
	RET

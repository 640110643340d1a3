#include "textflag.h"
#include "go_asm.h"

// Bytes of a quadword in the opposite order.
DATA ·swap<>+0(SB)/8, $0x0001020304050607
DATA ·swap<>+8(SB)/8, $0x08090a0b0c0d0e0f
GLOBL ·swap<>(SB), RODATA|NOPTR, $16

// By the number of ones that a distance's code begins with, 4 for more: the bits of these and
// the zero behind them, all bits of the code, and 64 less the bits of its number.
DATA ·prefix<>+0(SB)/8, $1
DATA ·prefix<>+8(SB)/8, $2
DATA ·prefix<>+16(SB)/8, $3
DATA ·prefix<>+24(SB)/8, $4
DATA ·prefix<>+32(SB)/8, $4
GLOBL ·prefix<>(SB), RODATA|NOPTR, $64
DATA ·whole<>+0(SB)/8, $1
DATA ·whole<>+8(SB)/8, $16
DATA ·whole<>+16(SB)/8, $20
DATA ·whole<>+24(SB)/8, $24
DATA ·whole<>+32(SB)/8, $68
GLOBL ·whole<>(SB), RODATA|NOPTR, $64
DATA ·rest<>+0(SB)/8, $64
DATA ·rest<>+8(SB)/8, $50
DATA ·rest<>+16(SB)/8, $47
DATA ·rest<>+24(SB)/8, $44
DATA ·rest<>+32(SB)/8, $0
GLOBL ·rest<>(SB), RODATA|NOPTR, $64

// LOAD puts the 64 bits at byte Z21 of memory into w, of lanes in mask, and 0 into others.
#define LOAD(disp, mask, w) \
	KMOVB mask, K7; \
	VPXORQ w, w, w; \
	VPGATHERQQ disp(R8)(Z21*1), K7, w; \
	VPSHUFB Z11, w, w

// WINDOW puts the bits from bit Z1 of the chunk on into Z23.
#define WINDOW(mask) \
	VPSRLQ $3, Z1, Z21; \
	VPADDQ Z0, Z21, Z21; \
	VPANDQ Z12, Z1, Z22; \
	LOAD(0, mask, Z23); \
	VPSLLVQ Z22, Z23, Z23

// COLUMN puts column lane of the rows, lanes 0x88 or 0xdd of the halves a and b, where it goes.
#define COLUMN(lanes, a, b, lane, to) \
	VSHUFI64X2 lanes, b, a, Z30; \
	MOVQ (to+8*lane)(SI), R9; \
	KMOVB (eight_stored+8*lane)(SI), K2; \
	VMOVDQU64 Z30, K2, (R9)(R10*1)

// COLUMNS does so for the even or the odd columns, those from lane on.
#define COLUMNS(t0, t2, t4, t6, lane, to) \
	VSHUFI64X2 $0x88, t2, t0, Z29; \
	VSHUFI64X2 $0xdd, t2, t0, t0; \
	VSHUFI64X2 $0x88, t6, t4, t2; \
	VSHUFI64X2 $0xdd, t6, t4, t4; \
	COLUMN($0x88, Z29, t2, lane, to); \
	COLUMN($0x88, t0, t4, (lane+2), to); \
	COLUMN($0xdd, Z29, t2, (lane+4), to); \
	COLUMN($0xdd, t0, t4, (lane+6), to)

#define PAIR(at, even, odd) \
	VMOVDQA64 at(DI), Z29; \
	VPUNPCKLQDQ (at+64)(DI), Z29, even; \
	VPUNPCKHQDQ (at+64)(DI), Z29, odd

// TRANSPOSE puts eight rows at byte at of DI, a lane a column, where the lanes' samples go.
#define TRANSPOSE(at, to) \
	PAIR((at+0), Z21, Z22); \
	PAIR((at+128), Z23, Z24); \
	PAIR((at+256), Z25, Z26); \
	PAIR((at+384), Z27, Z28); \
	COLUMNS(Z21, Z23, Z25, Z27, 0, to); \
	COLUMNS(Z22, Z24, Z26, Z28, 1, to)

// func decodeEight(e *eight)
//
// A lane of the vectors is a chunk, a turn of the loop over rows one sample of each. Without
// branches on what a sample's bits are, but for distances that change and numbers that a window
// does not show, nothing is guessed wrong; what bounds a turn is the way from a position over
// the bits there to the next position.
//
//	Z0 chunk     Z3 time         Z6 leading ones       Z9  samples wanted
//	Z1 position  Z4 distance     Z7 bits that may, -1  Z10 far
//	Z2 end       Z5 value        Z8 mask of these      Z19 samples made
//
// K1 has the lanes whose next sample is wanted and begins within the chunk. Others read nothing
// and stay where they are. K5 has those with a stale marker.
TEXT ·decodeEight(SB), NOSPLIT, $0-8
	MOVQ e+0(FP), SI
	VMOVDQU64 eight_chunk(SI), Z0
	VMOVDQU64 eight_pos(SI), Z1
	VMOVDQU64 eight_end(SI), Z2
	VMOVDQU64 eight_time(SI), Z3
	VMOVDQU64 eight_delta(SI), Z4
	VMOVDQU64 eight_value(SI), Z5
	VMOVDQU64 eight_wanted(SI), Z9
	VMOVDQU64 eight_far(SI), Z10
	MOVQ eight_most(SI), CX
	LEAQ (eight_rows+63)(SI), DI
	ANDQ $~63, DI
	XORQ R8, R8
	XORQ R10, R10
	MOVB eight_stale(SI), AX
	KMOVB AX, K5
	VPXORQ Z19, Z19, Z19
	VPTERNLOGQ $0xff, Z20, Z20, Z20
	VBROADCASTI32X4 ·swap<>(SB), Z11
	VPSRLQ $63, Z20, Z13 // 1
	VPSRLQ $61, Z20, Z12 // 7
	VPSRLQ $58, Z20, Z15 // 63
	VPSLLQ $62, Z20, Z31 // two ones
	VPADDQ Z13, Z13, Z16 // 2
	MOVQ $13, AX
	VPBROADCASTQ AX, Z17
	MOVQ $55, AX
	VPBROADCASTQ AX, Z18
	MOVQ $const_staleNaN, AX
	VPBROADCASTQ AX, Z14
	VPXORQ Z6, Z6, Z6
	VMOVDQA64 Z15, Z7
	VPCMPUQ $1, Z9, Z19, K2
	VPCMPUQ $2, Z2, Z1, K2, K1
	WINDOW(K1)
	MOVQ $8, DX
	MOVQ DI, R11
	JMP value

row:
	VPCMPUQ $1, Z9, Z19, K2
	VPCMPUQ $2, Z2, Z1, K2, K1
	WINDOW(K1)
	VPMOVQ2M Z23, K3
	KORTESTB K3, K3
	JNZ change
	VPADDQ Z23, Z23, Z23
	VPADDQ Z13, Z1, K1, Z1

value: // Z23 begins with the value's code at Z1, and shows 56 bits
	VPMOVQ2M Z23, K3         // the value changes
	VPCMPUQ $5, Z31, Z23, K4 // in a new range
	VPSLLQ $2, Z23, Z25
	VPSLLQ $7, Z23, Z26
	VPSRLQ $59, Z25, K4, Z6
	VPSRLQ $58, Z26, Z26
	VPSUBQ Z13, Z26, Z26
	VPANDQ Z15, Z26, K4, Z7
	VPSUBQ Z6, Z15, Z8
	VPSUBQ Z7, Z8, Z8
	VPSLLVQ Z8, Z20, Z8
	VPBLENDMQ Z17, Z16, K4, Z27
	VPSLLVQ Z27, Z23, Z28
	VPADDQ Z27, Z7, Z29
	VPCMPUQ $6, Z18, Z29, K3, K6
	KORTESTB K6, K6
	JNZ beyond

known: // Z28 begins with the value's bits, which end Z29+1 behind Z1
	VPSRLVQ Z6, Z28, Z28
	VPTERNLOGQ $0x78, Z8, Z28, K3, Z5
	VPADDQ Z13, Z1, K1, Z1
	VPADDQ Z29, Z1, K3, Z1
	VPCMPEQQ Z14, Z5, K1, K6
	KORB K6, K5, K5
	VPADDQ Z4, Z3, Z3
	VPADDQ Z13, Z19, Z19
	VMOVDQA64 Z3, (R11)
	VMOVDQA64 Z5, 512(R11)
	ADDQ $64, R11
	DECQ DX
	JNZ row

	// Of the eight rows those that are wanted: as many ones for each lane.
	VPSUBQ Z19, Z9, Z21
	VPADDQ Z12, Z21, Z21
	VPADDQ Z13, Z21, Z21
	VPXORQ Z22, Z22, Z22
	VPMAXSQ Z22, Z21, Z21
	VPADDQ Z12, Z13, Z22
	VPMINSQ Z22, Z21, Z21
	VPSLLVQ Z21, Z13, Z21
	VPSUBQ Z13, Z21, Z21
	VMOVDQU64 Z21, eight_stored(SI)
	TRANSPOSE(0, eight_times)
	TRANSPOSE(512, eight_values)
	ADDQ $64, R10
	MOVQ $8, DX
	MOVQ DI, R11
	SUBQ $8, CX
	JG row

	VMOVDQU64 Z1, eight_pos(SI)
	VMOVDQU64 Z10, eight_far(SI)
	KMOVB K5, AX
	MOVB AX, eight_stale(SI)
	VZEROUPPER
	RET

change: // Z23 begins with the code of a distance that changes, in lanes K3
	VPXORQ Z20, Z23, Z24
	VPLZCNTQ Z24, Z24
	VPADDQ Z16, Z16, Z25
	VPMINUQ Z25, Z24, Z24
	VPCMPEQQ Z25, Z24, K6
	VMOVDQA64 Z20, K6, Z10 // 64 bits are left to decodeXOR
	VPERMQ ·prefix<>(SB), Z24, Z25
	VPERMQ ·whole<>(SB), Z24, Z26
	VPERMQ ·rest<>(SB), Z24, Z27
	VPSLLVQ Z25, Z23, Z28
	VPSLLVQ Z27, Z13, Z29
	VPSUBQ Z29, Z28, Z28 // see signed: of x bits x-1 has the sign, of 1<<(x-1), too
	VPSRAVQ Z27, Z28, Z28
	VPADDQ Z13, Z28, Z28
	VPADDQ Z28, Z4, K3, Z4
	VPSUBQ Z13, Z4, Z28
	VPORQ Z28, Z10, K3, Z10
	VPADDQ Z26, Z1, K1, Z1
	VPCMPUQ $2, Z2, Z1, K1, K6
	WINDOW(K6)
	JMP value

beyond: // lanes K6 have value bits that Z23 does not show, Z27 behind Z1
	VPADDQ Z27, Z1, Z24
	VPCMPUQ $1, Z2, Z24, K6, K6
	VPSRLQ $3, Z24, Z21
	VPADDQ Z0, Z21, Z21
	VPANDQ Z12, Z24, Z22
	LOAD(0, K6, Z25)
	LOAD(1, K6, Z26)
	VPSLLVQ Z22, Z25, Z25
	VPSUBQ Z22, Z12, Z22
	VPADDQ Z13, Z22, Z22
	VPSRLVQ Z22, Z26, Z26
	VPORQ Z26, Z25, K6, Z28
	JMP known

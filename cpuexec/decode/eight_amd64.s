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

// WINDOW puts the bits from bit pos of the chunks of e on into Z23.
#define WINDOW(e, pos, mask) \
	VPSRLQ $3, pos, Z21; \
	VPADDQ eight_chunk(e), Z21, Z21; \
	VPANDQ Z12, pos, Z22; \
	LOAD(0, mask, Z23); \
	VPSLLVQ Z22, Z23, Z23

// ROW decodes one sample of each chunk of e. K1 has the lanes whose sample is wanted and begins
// within the chunk; others read nothing and stay where they are. Of a lane's first sample, where
// R13 is 0, the bit at pos is not looked at: the distance is known. At value, Z23 begins with the
// value's code at pos and shows Z30+1 bits. At known, Z28 begins with the bits of the value, which
// end Z29+1 behind pos.
#define ROW(e, at, pos, time, v, lead, sig, stale, change, value, beyond, known) \
	VPCMPUQ $1, eight_wanted(e), Z19, K2; \
	VPCMPUQ $2, eight_end(e), pos, K2, K1; \
	WINDOW(e, pos, K1); \
	VMOVDQA64 Z18, Z30; \
	VPMOVQ2M Z23, K3; \
	KMOVB K3, AX; \
	TESTQ R13, AX; \
	JNZ change; \
	VPADDQ Z23, Z23, Z23; \
	VPADDQ Z13, pos, K1, pos; \
value: \
	VPMOVQ2M Z23, K3; \
	VPCMPUQ $5, Z31, Z23, K4; \
	VPSLLQ $2, Z23, Z25; \
	VPSLLQ $7, Z23, Z26; \
	VPSRLQ $59, Z25, K4, lead; \
	VPSRLQ $58, Z26, Z26; \
	VPSUBQ Z13, Z26, Z26; \
	VPANDQ Z15, Z26, K4, sig; \
	VPSUBQ lead, Z15, Z10; \
	VPSUBQ sig, Z10, Z10; \
	VPSLLVQ Z10, Z20, Z10; \
	VPBLENDMQ Z17, Z16, K4, Z27; \
	VPSLLVQ Z27, Z23, Z28; \
	VPADDQ Z27, sig, Z29; \
	VPCMPUQ $6, Z30, Z29, K3, K6; \
	KORTESTB K6, K6; \
	JNZ beyond; \
known: \
	VPSRLVQ lead, Z28, Z28; \
	VPTERNLOGQ $0x78, Z10, Z28, K3, v; \
	VPADDQ Z13, pos, K1, pos; \
	VPADDQ Z29, pos, K3, pos; \
	VPCMPEQQ Z14, v, K1, K6; \
	KORB K6, stale, stale; \
	VPADDQ eight_delta(e), time, time; \
	VMOVDQA64 time, (at)(R11); \
	VMOVDQA64 v, (at+512)(R11)

// CHANGE reads the codes of distances that change, in lanes K3, with which Z23 begins. Numbers of
// 64 bits are left to decodeXOR. Of x bits x-1 has the sign: see signed. What Z23 shows behind the
// codes is enough for most values, so it is not loaded again, which takes longer than all the rest.
#define CHANGE(e, pos, value) \
	VPXORQ Z20, Z23, Z24; \
	VPLZCNTQ Z24, Z24; \
	VPADDQ Z16, Z16, Z25; \
	VPMINUQ Z25, Z24, Z24; \
	VPCMPEQQ Z25, Z24, K6; \
	VPERMQ ·prefix<>(SB), Z24, Z25; \
	VPERMQ ·whole<>(SB), Z24, Z26; \
	VPERMQ ·rest<>(SB), Z24, Z27; \
	VPSLLVQ Z25, Z23, Z28; \
	VPSLLVQ Z27, Z13, Z29; \
	VPSUBQ Z29, Z28, Z28; \
	VPSRAVQ Z27, Z28, Z28; \
	VPADDQ Z13, Z28, Z28; \
	VMOVDQU64 eight_delta(e), Z24; \
	VPADDQ Z28, Z24, K3, Z24; \
	VMOVDQU64 Z24, eight_delta(e); \
	VMOVDQU64 eight_far(e), Z28; \
	VMOVDQA64 Z20, K6, Z28; \
	VPSUBQ Z13, Z24, Z24; \
	VPORQ Z24, Z28, K3, Z28; \
	VMOVDQU64 Z28, eight_far(e); \
	VPADDQ Z26, pos, K1, pos; \
	VPSLLVQ Z26, Z23, Z23; \
	VPADDQ Z13, Z18, Z30; \
	VPSUBQ Z26, Z30, Z30; \
	JMP value

// BEYOND reads the bits of values that Z23 does not show, in lanes K6, from Z27 behind pos on.
#define BEYOND(e, pos, known) \
	VPADDQ Z27, pos, Z24; \
	VPCMPUQ $1, eight_end(e), Z24, K6, K6; \
	VPSRLQ $3, Z24, Z21; \
	VPADDQ eight_chunk(e), Z21, Z21; \
	VPANDQ Z12, Z24, Z22; \
	LOAD(0, K6, Z25); \
	LOAD(1, K6, Z26); \
	VPSLLVQ Z22, Z25, Z25; \
	VPSUBQ Z22, Z12, Z22; \
	VPADDQ Z13, Z22, Z22; \
	VPSRLVQ Z22, Z26, Z26; \
	VPORQ Z26, Z25, K6, Z28; \
	JMP known

// COLUMN puts column lane of the rows, lanes 0x88 or 0xdd of the halves a and b, where it goes.
#define COLUMN(e, lanes, a, b, lane, to) \
	VSHUFI64X2 lanes, b, a, Z30; \
	MOVQ (to+8*lane)(e), R9; \
	KMOVB (eight_stored+8*lane)(e), K2; \
	VMOVDQU64 Z30, K2, (R9)(R10*1)

// COLUMNS does so for the even or the odd columns, those from lane on.
#define COLUMNS(e, t0, t2, t4, t6, lane, to) \
	VSHUFI64X2 $0x88, t2, t0, Z29; \
	VSHUFI64X2 $0xdd, t2, t0, t0; \
	VSHUFI64X2 $0x88, t6, t4, t2; \
	VSHUFI64X2 $0xdd, t6, t4, t4; \
	COLUMN(e, $0x88, Z29, t2, lane, to); \
	COLUMN(e, $0x88, t0, t4, (lane+2), to); \
	COLUMN(e, $0xdd, Z29, t2, (lane+4), to); \
	COLUMN(e, $0xdd, t0, t4, (lane+6), to)

#define PAIR(at, even, odd) \
	VMOVDQA64 at(DI), Z29; \
	VPUNPCKLQDQ (at+64)(DI), Z29, even; \
	VPUNPCKHQDQ (at+64)(DI), Z29, odd

#define TRANSPOSE(e, at, to) \
	PAIR((at+0), Z21, Z22); \
	PAIR((at+128), Z23, Z24); \
	PAIR((at+256), Z25, Z26); \
	PAIR((at+384), Z27, Z28); \
	COLUMNS(e, Z21, Z23, Z25, Z27, 0, to); \
	COLUMNS(e, Z22, Z24, Z26, Z28, 1, to)

// STORE puts the last eight rows of e, at byte at of DI, where samples go: of each lane those that
// are wanted, as many ones as there are such.
#define STORE(e, at) \
	VMOVDQU64 eight_wanted(e), Z21; \
	VPSUBQ Z19, Z21, Z21; \
	VPADDQ Z12, Z13, Z22; \
	VPADDQ Z22, Z21, Z21; \
	VPXORQ Z23, Z23, Z23; \
	VPMAXSQ Z23, Z21, Z21; \
	VPMINSQ Z22, Z21, Z21; \
	VPSLLVQ Z21, Z13, Z21; \
	VPSUBQ Z13, Z21, Z21; \
	VMOVDQU64 Z21, eight_stored(e); \
	TRANSPOSE(e, at, eight_times); \
	TRANSPOSE(e, (at+512), eight_values)

#define BEGIN(e, pos, time, v, lead, sig, stale) \
	VMOVDQU64 eight_pos(e), pos; \
	VMOVDQU64 eight_time(e), time; \
	VMOVDQU64 eight_value(e), v; \
	VPXORQ lead, lead, lead; \
	VMOVDQA64 Z15, sig; \
	MOVB eight_stale(e), AX; \
	KMOVB AX, stale

#define END(e, pos, stale) \
	VMOVDQU64 pos, eight_pos(e); \
	KMOVB stale, AX; \
	MOVB AX, eight_stale(e)

// CONSTANTS sets what stays the same, and no rows made, Z19.
#define CONSTANTS \
	MOVQ e+0(FP), SI; \
	MOVQ eight_most(SI), CX; \
	LEAQ (eight_rows+63)(SI), DI; \
	ANDQ $~63, DI; \
	XORQ R8, R8; \
	XORQ R10, R10; \
	XORQ R13, R13; \
	VPXORQ Z19, Z19, Z19; \
	VPTERNLOGQ $0xff, Z20, Z20, Z20; \
	VBROADCASTI32X4 ·swap<>(SB), Z11; \
	VPSRLQ $63, Z20, Z13; \
	VPSRLQ $61, Z20, Z12; \
	VPSRLQ $58, Z20, Z15; \
	VPSLLQ $62, Z20, Z31; \
	VPADDQ Z13, Z13, Z16; \
	MOVQ $13, AX; \
	VPBROADCASTQ AX, Z17; \
	MOVQ $55, AX; \
	VPBROADCASTQ AX, Z18; \
	MOVQ $const_staleNaN, AX; \
	VPBROADCASTQ AX, Z14

// func decodeEight(e *eight)
//
// A lane of the vectors is a chunk, a turn of the loop over rows one sample of each. Without
// branches on what a sample's bits are, but for distances that change and numbers that a window
// does not show, nothing is guessed wrong; what bounds a turn is the way from a position over
// the bits there to the next position.
//
//	Z1, Z0 position   Z3, Z2 time   Z5, Z4 value   Z6, Z8 leading ones   Z7, Z9 bits that may, -1
TEXT ·decodeEight(SB), NOSPLIT, $0-8
	CONSTANTS
	BEGIN(SI, Z1, Z3, Z5, Z6, Z7, K5)

block:
	MOVQ $8, DX
	MOVQ DI, R11

row:
	ROW(SI, 0, Z1, Z3, Z5, Z6, Z7, K5, change, value, beyond, known)
	MOVQ $0xff, R13
	VPADDQ Z13, Z19, Z19
	ADDQ $64, R11
	DECQ DX
	JNZ row
	STORE(SI, 0)
	ADDQ $64, R10
	SUBQ $8, CX
	JG block
	END(SI, Z1, K5)
	VZEROUPPER
	RET

change:
	CHANGE(SI, Z1, value)

beyond:
	BEYOND(SI, Z1, known)

// func decodeSixteen(e *[2]eight)
//
// The same for two times eight chunks: while one waits for its next position, the other goes on.
TEXT ·decodeSixteen(SB), NOSPLIT, $0-8
	CONSTANTS
	LEAQ eight__size(SI), BX
	BEGIN(SI, Z1, Z3, Z5, Z6, Z7, K5)
	BEGIN(BX, Z0, Z2, Z4, Z8, Z9, K0)

block:
	MOVQ $8, DX
	MOVQ DI, R11

row:
	ROW(SI, 0, Z1, Z3, Z5, Z6, Z7, K5, change, value, beyond, known)
	ROW(BX, eight__size, Z0, Z2, Z4, Z8, Z9, K0, change2, value2, beyond2, known2)
	MOVQ $0xff, R13
	VPADDQ Z13, Z19, Z19
	ADDQ $64, R11
	DECQ DX
	JNZ row
	STORE(SI, 0)
	STORE(BX, eight__size)
	ADDQ $64, R10
	SUBQ $8, CX
	JG block
	END(SI, Z1, K5)
	END(BX, Z0, K0)
	VZEROUPPER
	RET

change:
	CHANGE(SI, Z1, value)

beyond:
	BEYOND(SI, Z1, known)

change2:
	CHANGE(BX, Z0, value2)

beyond2:
	BEYOND(BX, Z0, known2)

// func Prefetch(b *byte, n int)
//
// Has n bytes, above 0, brought into the first cache, a line of 64 at once.
TEXT ·Prefetch(SB), NOSPLIT, $0-16
	MOVQ b+0(FP), SI
	MOVQ n+8(FP), CX
	LEAQ -1(SI)(CX*1), DI

line:
	PREFETCHT0 (SI)
	ADDQ $64, SI
	CMPQ SI, DI
	JLE line
	PREFETCHT0 (DI)
	RET

#include "textflag.h"
#include "encodings.h"

// func Widen(to *float64, units *uint32, n int, base, unit float64)
TEXT ·Widen(SB), NOSPLIT, $0-40
	MOVD to+0(FP), R0
	MOVD units+8(FP), R1
	MOVD n+16(FP), R2
	FMOVD base+24(FP), F30
	FMOVD unit+32(FP), F31
	VDUP V30.D[0], V30.D2
	VDUP V31.D[0], V31.D2

loop:
	FLDPQ.P 32(R1), (F0, F1)
	VUXTL V0.S2, V2.D2
	VUXTL2 V0.S4, V3.D2
	VUXTL V1.S2, V4.D2
	VUXTL2 V1.S4, V5.D2
	UCVTF2D(2, 2)
	UCVTF2D(3, 3)
	UCVTF2D(4, 4)
	UCVTF2D(5, 5)
	FMUL2D(31, 2, 2)
	FMUL2D(31, 3, 3)
	FMUL2D(31, 4, 4)
	FMUL2D(31, 5, 5)
	FADD2D(2, 30, 2)
	FADD2D(3, 30, 3)
	FADD2D(4, 30, 4)
	FADD2D(5, 30, 5)
	FSTPQ.P (F2, F3), 32(R0)
	FSTPQ.P (F4, F5), 32(R0)
	SUBS $8, R2
	BNE loop
	RET

// func Since(out *float64, to *int32, late *uint16, n int, before int64, c *[6]float64)
TEXT ·Since(SB), NOSPLIT, $0-48
	MOVD out+0(FP), R0
	MOVD to+8(FP), R1
	MOVD late+16(FP), R2
	MOVD n+24(FP), R3
	MOVD before+32(FP), R4
	SUB R4<<1, R2
	MOVD c+40(FP), R5
	FLDPD (R5), (F30, F31)
	FLDPQ 16(R5), (F28, F29)
	VDUP V30.D[0], V30.D2
	VDUP V31.D[0], V31.D2

loop:
	FMOVQ (R1), F0
	LDPW.P 8(R1), (R8, R9)
	LDPW.P 8(R1), (R10, R11)
	LOADH(8, 2, 4)
	LOADH(9, 2, 5)
	LOADH(10, 2, 6)
	LOADH(11, 2, 7)
	SXTL2D(0, 1)
	SXTL22D(0, 2)
	ZIP2D(5, 4, 4)
	ZIP2D(7, 6, 6)
	SCVTF2D(1, 1)
	SCVTF2D(2, 2)
	UCVTF2D(4, 4)
	UCVTF2D(6, 6)
	FMUL2D(30, 1, 1)
	FMUL2D(30, 2, 2)
	FADD2D(28, 1, 1)
	FADD2D(29, 2, 2)
	FADD2D(4, 1, 1)
	FADD2D(6, 2, 2)
	FSTPQ.P (F1, F2), 32(R0)
	FSUB2D(31, 28, 28)
	FSUB2D(31, 29, 29)
	SUBS $4, R3
	BNE loop
	RET

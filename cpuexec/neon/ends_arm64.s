#include "textflag.h"
#include "encodings.h"

// UNITS loads the units at the next two indices at idx, of units, into V(d). V(t) is lost.
#define UNITS(idx, units, d, t) \
	LDPW.P 8(idx), (R10, R11); \
	LOADS(10, units, d); \
	LOADS(11, units, t); \
	ZIP2D(t, d, d)

// FLOATS does so for values.
#define FLOATS(idx, vs, d, t) \
	LDPW.P 8(idx), (R10, R11); \
	LOADD(10, vs, d); \
	LOADD(11, vs, t); \
	ZIP2D(t, d, d)

// UNPACK makes the units of V(d) values. V30 is the base, V31 the unit.
#define UNPACK(d) \
	UCVTF2D(d, d); \
	FMUL2D(31, d, d); \
	FADD2D(d, 30, d)

#define PACKING(base, unit) \
	FMOVD base, F30; \
	FMOVD unit, F31; \
	VDUP V30.D[0], V30.D2; \
	VDUP V31.D[0], V31.D2

// STOP goes to done if a bit of V(x) is set.
#define STOP(x) \
	UMAXP4S(x, x, 7); \
	FMOVD F7, R10; \
	CBNZ R10, done

// TWO goes to done if one of the next four windows has less than two samples: V28 are ones.
#define TWO \
	FMOVQ (R2), F0; \
	FMOVQ (R3), F1; \
	VSUB V0.S4, V1.S4, V1.S4; \
	CMGE4S(1, 28, 1); \
	STOP(1)

// PACKED makes V4 and V5 the packed samples at the next indices at R2, and V2 and V3 those before the
// ones at R3.
#define PACKED \
	UNITS(R2, 1, 4, 6); \
	UNITS(R2, 1, 5, 7); \
	UNITS(R3, 8, 2, 6); \
	UNITS(R3, 8, 3, 7); \
	UNPACK(2); \
	UNPACK(3); \
	UNPACK(4); \
	UNPACK(5)

// PLAIN does so for values.
#define PLAIN \
	FLOATS(R2, 1, 4, 6); \
	FLOATS(R2, 1, 5, 7); \
	FLOATS(R3, 8, 2, 6); \
	FLOATS(R3, 8, 3, 7)

// INCREASES stores what V2 and V3, V4 and V5, the last samples and the first, come to. V29 is tiny.
#define INCREASES \
	FSUB2D(4, 2, 2); \
	FSUB2D(5, 3, 3); \
	FLDPQ.P 32(R5), (F0, F1); \
	FMUL2D(0, 2, 0); \
	FMUL2D(1, 3, 1); \
	FADD2D(29, 0, 0); \
	FADD2D(29, 1, 1); \
	FCMGE2D(4, 0, 0); \
	FCMGE2D(5, 1, 1); \
	VORR V0.B16, V1.B16, V0.B16; \
	STOP(0); \
	FLDPQ.P 32(R4), (F0, F1); \
	FMUL2D(0, 2, 2); \
	FMUL2D(1, 3, 3); \
	FSTPQ.P (F2, F3), 32(R0)

// func PackedIncreases(out *float64, units *uint32, lo, hi *int32, factors, near *float64, n int, base, unit, tiny float64) int
TEXT ·PackedIncreases(SB), NOSPLIT, $0-88
	PACKING(base+56(FP), unit+64(FP))
	FMOVD tiny+72(FP), F29
	VDUP V29.D[0], V29.D2
	MOVD out+0(FP), R0
	MOVD units+8(FP), R1
	SUB $4, R1, R8
	MOVD lo+16(FP), R2
	MOVD hi+24(FP), R3
	MOVD factors+32(FP), R4
	MOVD near+40(FP), R5
	MOVD n+48(FP), R6
	MOVD $1, R7
	VDUP R7, V28.S4
	MOVD ZR, R7

loop:
	TWO
	PACKED
	INCREASES
	ADD $4, R7
	CMP R6, R7
	BLT loop

done:
	MOVD R7, ret+80(FP)
	RET

// func FloatIncreases(out, vs *float64, lo, hi *int32, factors, near *float64, n int, tiny float64) int
TEXT ·FloatIncreases(SB), NOSPLIT, $0-72
	FMOVD tiny+56(FP), F29
	VDUP V29.D[0], V29.D2
	MOVD out+0(FP), R0
	MOVD vs+8(FP), R1
	SUB $8, R1, R8
	MOVD lo+16(FP), R2
	MOVD hi+24(FP), R3
	MOVD factors+32(FP), R4
	MOVD near+40(FP), R5
	MOVD n+48(FP), R6
	MOVD $1, R7
	VDUP R7, V28.S4
	MOVD ZR, R7

loop:
	TWO
	PLAIN
	INCREASES
	ADD $4, R7
	CMP R6, R7
	BLT loop

done:
	MOVD R7, ret+64(FP)
	RET

// DELTAS stores the differences between V2 and V3, and V4 and V5, times factors.
#define DELTAS \
	FSUB2D(4, 2, 2); \
	FSUB2D(5, 3, 3); \
	FLDPQ.P 32(R4), (F0, F1); \
	FMUL2D(0, 2, 2); \
	FMUL2D(1, 3, 3); \
	FSTPQ.P (F2, F3), 32(R0)

// func PackedDeltas(out *float64, units *uint32, lo, hi *int32, factors *float64, n int, base, unit float64) int
TEXT ·PackedDeltas(SB), NOSPLIT, $0-72
	PACKING(base+48(FP), unit+56(FP))
	MOVD out+0(FP), R0
	MOVD units+8(FP), R1
	SUB $4, R1, R8
	MOVD lo+16(FP), R2
	MOVD hi+24(FP), R3
	MOVD factors+32(FP), R4
	MOVD n+40(FP), R6
	MOVD $1, R7
	VDUP R7, V28.S4
	MOVD ZR, R7

loop:
	TWO
	PACKED
	DELTAS
	ADD $4, R7
	CMP R6, R7
	BLT loop

done:
	MOVD R7, ret+64(FP)
	RET

// func FloatDeltas(out, vs *float64, lo, hi *int32, factors *float64, n int) int
TEXT ·FloatDeltas(SB), NOSPLIT, $0-56
	MOVD out+0(FP), R0
	MOVD vs+8(FP), R1
	SUB $8, R1, R8
	MOVD lo+16(FP), R2
	MOVD hi+24(FP), R3
	MOVD factors+32(FP), R4
	MOVD n+40(FP), R6
	MOVD $1, R7
	VDUP R7, V28.S4
	MOVD ZR, R7

loop:
	TWO
	PLAIN
	DELTAS
	ADD $4, R7
	CMP R6, R7
	BLT loop

done:
	MOVD R7, ret+48(FP)
	RET

// func PackedLast(out *float64, units *uint32, hi *int32, n int, base, unit float64) int
TEXT ·PackedLast(SB), NOSPLIT, $0-56
	PACKING(base+32(FP), unit+40(FP))
	MOVD out+0(FP), R0
	MOVD units+8(FP), R1
	SUB $4, R1
	MOVD hi+16(FP), R3
	MOVD n+24(FP), R6
	VEOR V28.B16, V28.B16, V28.B16
	MOVD ZR, R7

loop:
	FMOVQ (R3), F0
	CMGE4S(0, 28, 0)
	STOP(0)
	UNITS(R3, 1, 2, 6)
	UNITS(R3, 1, 3, 7)
	UNPACK(2)
	UNPACK(3)
	FSTPQ.P (F2, F3), 32(R0)
	ADD $4, R7
	CMP R6, R7
	BLT loop

done:
	MOVD R7, ret+48(FP)
	RET

// func PackedPairs(out *float64, units *uint32, hi *int32, seconds *float64, n int, base, unit float64) int
TEXT ·PackedPairs(SB), NOSPLIT, $0-64
	PACKING(base+40(FP), unit+48(FP))
	MOVD out+0(FP), R0
	MOVD units+8(FP), R1
	SUB $4, R1, R8
	SUB $8, R1
	MOVD hi+16(FP), R3
	MOVD R3, R2
	MOVD seconds+24(FP), R4
	MOVD n+32(FP), R6
	MOVD ZR, R7

loop:
	PACKED
	FCMGT2D(2, 4, 0)
	FCMGT2D(3, 5, 1)
	VORR V0.B16, V1.B16, V0.B16
	STOP(0)
	FSUB2D(4, 2, 2)
	FSUB2D(5, 3, 3)
	FLDPQ.P 32(R4), (F0, F1)
	FDIV2D(0, 2, 2)
	FDIV2D(1, 3, 3)
	FSTPQ.P (F2, F3), 32(R0)
	ADD $4, R7
	CMP R6, R7
	BLT loop

done:
	MOVD R7, ret+56(FP)
	RET

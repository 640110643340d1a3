#include "textflag.h"
#include "encodings.h"

// func Range(units *uint32, n int) (low, high uint32)
TEXT ·Range(SB), NOSPLIT, $0-24
	MOVD units+0(FP), R0
	MOVD n+8(FP), R1
	VCMEQ V0.S4, V0.S4, V0.S4
	VCMEQ V1.S4, V1.S4, V1.S4
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16

loop:
	FLDPQ.P 32(R0), (F4, F5)
	VUMIN V4.S4, V0.S4, V0.S4
	VUMIN V5.S4, V1.S4, V1.S4
	VUMAX V4.S4, V2.S4, V2.S4
	VUMAX V5.S4, V3.S4, V3.S4
	SUBS $8, R1
	BNE loop

	VUMIN V1.S4, V0.S4, V0.S4
	VUMAX V3.S4, V2.S4, V2.S4
	UMINV4S(0, 0)
	UMAXV4S(2, 2)
	FMOVS F0, low+16(FP)
	FMOVS F2, high+20(FP)
	RET

// TWOSUM makes t the sum of s and v, and e what that sum loses; see twoSum in cpuexec/exact. s and v
// stay as they are.
#define TWOSUM(s, v, t, b, e) \
	FADD2D(v, s, t); \
	FSUB2D(s, t, b); \
	FSUB2D(b, t, e); \
	FSUB2D(e, s, e); \
	FSUB2D(b, v, b); \
	FADD2D(b, e, e)

// func Sums(val, comp, in *float64, n int) int
//
// An error that is not finite is the only one that is not 0 when taken from itself.
TEXT ·Sums(SB), NOSPLIT, $0-40
	MOVD val+0(FP), R0
	MOVD comp+8(FP), R1
	MOVD in+16(FP), R2
	MOVD n+24(FP), R3
	MOVD ZR, R4

loop:
	FLDPQ (R0), (F0, F1)
	FLDPQ.P 32(R2), (F2, F3)
	TWOSUM(0, 2, 4, 6, 16)
	TWOSUM(1, 3, 5, 7, 17)
	FSUB2D(16, 16, 6)
	FSUB2D(17, 17, 7)
	VORR V6.B16, V7.B16, V6.B16
	UMAXP4S(6, 6, 6)
	FMOVD F6, R5
	CBNZ R5, done
	FLDPQ (R1), (F18, F19)
	FADD2D(16, 18, 16)
	FADD2D(17, 19, 17)
	FSTPQ.P (F4, F5), 32(R0)
	FSTPQ.P (F16, F17), 32(R1)
	ADD $4, R4
	CMP R3, R4
	BLT loop

done:
	MOVD R4, ret+32(FP)
	RET

// SAMPLE adds a sample of value y to the sums s and u and makes them t and w: s and t are those of
// x and y, u and w those of x·y and x². The first lane of V7 is x, FMULx multiplies by that.
#define SAMPLE(x, FMULx, y, s, t, u, w) \
	ZIP2D(y, x, 2); \
	ZIP2D(x, y, 3); \
	FMULx(7, 3, 3); \
	TWOSUM(s, 2, t, 4, 20); \
	TWOSUM(u, 3, w, 5, 21); \
	FADD2D(20, 18, 18); \
	FADD2D(21, 19, 19)

// func Moments(ts *int64, vs *float64, n int, origin int64, thousand float64, out *[8]float64)
//
// V16 and V17 are the sums of x and y, and of x·y and x²; V18 and V19 their compensations. Two
// samples have their times divided at once, and are then added one after the other.
TEXT ·Moments(SB), NOSPLIT, $0-48
	MOVD ts+0(FP), R0
	MOVD vs+8(FP), R1
	MOVD n+16(FP), R2
	MOVD origin+24(FP), R3
	FMOVD thousand+32(FP), F31
	MOVD out+40(FP), R4
	VDUP R3, V30.D2
	VDUP V31.D[0], V31.D2
	VEOR V16.B16, V16.B16, V16.B16
	VEOR V17.B16, V17.B16, V17.B16
	VEOR V18.B16, V18.B16, V18.B16
	VEOR V19.B16, V19.B16, V19.B16
	SUBS $2, R2
	BLT rest

loop:
	FMOVQ.P 16(R0), F7
	FLDPD.P 16(R1), (F0, F1)
	VSUB V30.D2, V7.D2, V7.D2
	SCVTF2D(7, 7)
	FDIV2D(31, 7, 7)
	VDUP V7.D[1], V6.D2
	SAMPLE(7, FMUL0, 0, 16, 22, 17, 23)
	SAMPLE(6, FMUL1, 1, 22, 16, 23, 17)
	SUBS $2, R2
	BGE loop

rest:
	CMN $2, R2
	BEQ done
	FMOVD (R0), F7
	FMOVD (R1), F0
	VSUB V30.D2, V7.D2, V7.D2
	SCVTF2D(7, 7)
	FDIV2D(31, 7, 7)
	SAMPLE(7, FMUL0, 0, 16, 22, 17, 23)
	VMOV V22.B16, V16.B16
	VMOV V23.B16, V17.B16

done:
	FSTPQ.P (F16, F17), 32(R4)
	FSTPQ (F18, F19), (R4)
	RET

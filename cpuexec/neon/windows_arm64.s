#include "textflag.h"
#include "encodings.h"

// FAR has of two windows how many samples there are but for one, count, and of how many ms the last
// and the first come after the ends, last and first. It makes last how far the last is before the
// end, way how far it is from the first, and sets all bits of good where neither end is too far
// from its sample. V24 is 0, V25 the ms of a window, V27 a bit less than 1.1, V29 is 1.
#define FAR(count, last, first, way, good, most) \
	SCVTF2D(count, count); \
	FSUB2D(last, 24, last); \
	FSUB2D(first, 25, way); \
	FSUB2D(last, way, way); \
	FMAX2D(first, last, good); \
	FMUL2D(count, good, good); \
	FMUL2D(27, way, most); \
	FCMGT2D(good, most, good); \
	FCMGE2D(29, count, count); \
	AND16B(count, good, good)

// EXTRAPOLATE makes first the factor and last the near of what FAR has made. V26 is 1000, V28 what
// divides the factors; V30 multiplies nears, and V31 is added.
#define EXTRAPOLATE(last, first, way) \
	FDIV2D(26, first, first); \
	FDIV2D(26, last, last); \
	FDIV2D(26, way, way); \
	FADD2D(first, way, first); \
	FADD2D(last, first, first); \
	FDIV2D(way, first, first); \
	FSUB2D(29, first, last); \
	FDIV2D(28, first, first); \
	FMUL2D(30, last, last); \
	FADD2D(31, last, last)

// func Extrapolations(factors, nears *float64, lo, hi *int32, n int, c *[6]float64, times, plus float64) int
TEXT ·Extrapolations(SB), NOSPLIT, $0-72
	MOVD factors+0(FP), R0
	MOVD nears+8(FP), R1
	MOVD lo+16(FP), R2
	MOVD hi+24(FP), R3
	MOVD n+32(FP), R6
	MOVD c+40(FP), R4
	FLDPD (R4), (F25, F26)
	FMOVD 24(R4), F27
	FLDPD 32(R4), (F28, F29)
	FMOVD times+48(FP), F30
	FMOVD plus+56(FP), F31
	VEOR V24.B16, V24.B16, V24.B16
	VDUP V25.D[0], V25.D2
	VDUP V26.D[0], V26.D2
	VDUP V27.D[0], V27.D2
	VDUP V28.D[0], V28.D2
	VDUP V29.D[0], V29.D2
	VDUP V30.D[0], V30.D2
	VDUP V31.D[0], V31.D2
	VCMEQ V23.S4, V23.S4, V23.S4
	MOVD ZR, R7

loop:
	FMOVQ.P 16(R3), F0
	FMOVQ.P 16(R2), F1
	FLDPQ (R0), (F2, F3)
	FLDPQ (R1), (F4, F5)
	VSUB V1.S4, V0.S4, V0.S4
	VADD V23.S4, V0.S4, V0.S4
	SXTL22D(0, 1)
	SXTL2D(0, 0)
	FAR(0, 2, 4, 16, 18, 20)
	FAR(1, 3, 5, 17, 19, 21)
	VAND V18.B16, V19.B16, V18.B16
	UMINP4S(18, 18, 18)
	FMOVD F18, R10
	CMN $1, R10
	BNE done
	EXTRAPOLATE(2, 4, 16)
	EXTRAPOLATE(3, 5, 17)
	FSTPQ.P (F4, F5), 32(R0)
	FSTPQ.P (F2, F3), 32(R1)
	ADD $4, R7
	CMP R6, R7
	BLT loop

done:
	MOVD R7, ret+64(FP)
	RET

// func Spread(lo, hi *int32, n int) (least, most int32, total int64)
TEXT ·Spread(SB), NOSPLIT, $0-40
	MOVD lo+0(FP), R0
	MOVD hi+8(FP), R1
	MOVD n+16(FP), R2
	VCMEQ V4.S4, V4.S4, V4.S4
	VUSHR $1, V4.S4, V4.S4
	VMOV V4.B16, V5.B16
	VEOR V6.B16, V6.B16, V6.B16
	VEOR V7.B16, V7.B16, V7.B16
	VEOR V16.B16, V16.B16, V16.B16
	VEOR V17.B16, V17.B16, V17.B16

loop:
	FLDPQ.P 32(R0), (F0, F1)
	FLDPQ.P 32(R1), (F2, F3)
	VSUB V0.S4, V2.S4, V2.S4
	VSUB V1.S4, V3.S4, V3.S4
	SMIN4S(2, 4, 4)
	SMIN4S(3, 5, 5)
	SMAX4S(2, 6, 6)
	SMAX4S(3, 7, 7)
	UADALP2D(2, 16)
	UADALP2D(3, 17)
	SUBS $8, R2
	BNE loop

	SMIN4S(5, 4, 4)
	SMAX4S(7, 6, 6)
	VADD V17.D2, V16.D2, V16.D2
	SMINV4S(4, 4)
	SMAXV4S(6, 6)
	ADDP2D(16, 16)
	FMOVS F4, least+24(FP)
	FMOVS F6, most+28(FP)
	FMOVD F16, total+32(FP)
	RET

// func AddSamples(all, fresh *int64, lo, hi, seen *int32, n int, used int64)
TEXT ·AddSamples(SB), NOSPLIT, $0-56
	MOVD all+0(FP), R0
	MOVD fresh+8(FP), R1
	MOVD lo+16(FP), R2
	MOVD hi+24(FP), R3
	MOVD seen+32(FP), R4
	MOVD n+40(FP), R5
	MOVD used+48(FP), R6
	VDUP R6, V31.S4

loop:
	FMOVQ.P 16(R2), F0
	FMOVQ.P 16(R3), F1
	FMOVQ.P 16(R4), F2
	SMAX4S(2, 0, 2)
	VSUB V0.S4, V1.S4, V0.S4
	VSUB V2.S4, V1.S4, V2.S4
	FLDPQ (R0), (F4, F5)
	FLDPQ (R1), (F6, F7)
	UMLAL2D(31, 0, 4)
	UMLAL22D(31, 0, 5)
	UMLAL2D(31, 2, 6)
	UMLAL22D(31, 2, 7)
	FSTPQ.P (F4, F5), 32(R0)
	FSTPQ.P (F6, F7), 32(R1)
	SUBS $4, R5
	BNE loop
	RET

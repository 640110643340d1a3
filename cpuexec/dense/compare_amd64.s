#include "textflag.h"

// COMPARE compares n values of lhs with those of rhs, the last four first, and shifts their bits
// into the result.
#define COMPARE(predicate) \
	MOVQ lhs+0(FP), SI                  \
	MOVQ rhs+8(FP), DI                  \
	MOVQ n+16(FP), CX                   \
	XORQ AX, AX                         \
loop:                                   \
	SUBQ $4, CX                         \
	VMOVUPD (SI)(CX*8), Y0              \
	VCMPPD $predicate, (DI)(CX*8), Y0, Y0 \
	VMOVMSKPD Y0, DX                    \
	SHLQ $4, AX                         \
	ORQ DX, AX                          \
	TESTQ CX, CX                        \
	JNE loop                            \
	MOVQ AX, ret+24(FP)                 \
	VZEROUPPER                          \
	RET

// The predicates are false where one of the values is NaN.

// func equalVector(lhs, rhs *float64, n int) uint64
TEXT ·equalVector(SB), NOSPLIT, $0-32
	COMPARE(0x00)

// func greaterVector(lhs, rhs *float64, n int) uint64
TEXT ·greaterVector(SB), NOSPLIT, $0-32
	COMPARE(0x1e)

// func atLeastVector(lhs, rhs *float64, n int) uint64
TEXT ·atLeastVector(SB), NOSPLIT, $0-32
	COMPARE(0x1d)

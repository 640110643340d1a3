// SECONDS makes Y of ms, which are integers below 2^31, seconds: the quotient by 1000 as it is
// rounded. A product with 1/1000 is at most two units of the last place off, what remains of Y
// is exact, and no such quotient is so near to the middle between two floats that what the
// second product is off by would matter. Y14 is 1000, Y13 is 1/1000.
#define SECONDS(Y, Q) \
	VMULPD Y13, Y, Q; \
	VFNMADD231PD Q, Y14, Y; \
	VFMADD213PD Q, Y13, Y

// Package neon is what cores do with several values an instruction on arm64, in assembly: two of 64
// bits, or four of 32, in Advanced SIMD (NEON), which every such processor has.
//
// Pointers to columns of values and windows flow in, filled memory and counts out. Each function
// has the bits of the plain Go form that its caller has beside it, and of the form in AVX2: the same
// operations in the same order, each rounded by itself. Nothing here checks a bound; callers do.
//
// Start with encodings.h: Go's assembler does not know most of these instructions by name. It lies
// here with all that is written in it, since Go builds a package anew when a header of its own
// changes, but not when one of another package does.
package neon

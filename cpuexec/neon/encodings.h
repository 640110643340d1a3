// Instructions that Go's assembler has no name for, by the numbers of their registers, sources
// first: the way Go writes them. Behind each is its text in GNU's assembler, which TestEncodings
// compares with what Go's disassembler makes of it.

// Two float64.
#define FADD2D(m, n, d) WORD $(0x4e60d400 | (m)<<16 | (n)<<5 | (d)) // fadd vd.2d, vn.2d, vm.2d
#define FSUB2D(m, n, d) WORD $(0x4ee0d400 | (m)<<16 | (n)<<5 | (d)) // fsub vd.2d, vn.2d, vm.2d
#define FMUL2D(m, n, d) WORD $(0x6e60dc00 | (m)<<16 | (n)<<5 | (d)) // fmul vd.2d, vn.2d, vm.2d
#define FDIV2D(m, n, d) WORD $(0x6e60fc00 | (m)<<16 | (n)<<5 | (d)) // fdiv vd.2d, vn.2d, vm.2d
#define FMAX2D(m, n, d) WORD $(0x4e60f400 | (m)<<16 | (n)<<5 | (d)) // fmax vd.2d, vn.2d, vm.2d
#define FMUL0(m, n, d) WORD $(0x4fc09000 | (m)<<16 | (n)<<5 | (d)) // fmul vd.2d, vn.2d, vm.d[0]
#define FMUL1(m, n, d) WORD $(0x4fc09800 | (m)<<16 | (n)<<5 | (d)) // fmul vd.2d, vn.2d, vm.d[1]

// All bits of a lane are set where n is not less than m, or greater.
#define FCMGE2D(m, n, d) WORD $(0x6e60e400 | (m)<<16 | (n)<<5 | (d)) // fcmge vd.2d, vn.2d, vm.2d
#define FCMGT2D(m, n, d) WORD $(0x6ee0e400 | (m)<<16 | (n)<<5 | (d)) // fcmgt vd.2d, vn.2d, vm.2d
#define CMGE4S(m, n, d) WORD $(0x4ea03c00 | (m)<<16 | (n)<<5 | (d)) // cmge vd.4s, vn.4s, vm.4s
#define AND16B(m, n, d) WORD $(0x4e201c00 | (m)<<16 | (n)<<5 | (d)) // and vd.16b, vn.16b, vm.16b

// Integers of 64 bits, with and without a sign, to float64, and of 32 bits to 64.
#define SCVTF2D(n, d) WORD $(0x4e61d800 | (n)<<5 | (d)) // scvtf vd.2d, vn.2d
#define UCVTF2D(n, d) WORD $(0x6e61d800 | (n)<<5 | (d)) // ucvtf vd.2d, vn.2d
#define SXTL2D(n, d) WORD $(0x0f20a400 | (n)<<5 | (d)) // sxtl vd.2d, vn.2s
#define SXTL22D(n, d) WORD $(0x4f20a400 | (n)<<5 | (d)) // sxtl2 vd.2d, vn.4s

// Four integers of 32 bits.
#define SMIN4S(m, n, d) WORD $(0x4ea06c00 | (m)<<16 | (n)<<5 | (d)) // smin vd.4s, vn.4s, vm.4s
#define SMAX4S(m, n, d) WORD $(0x4ea06400 | (m)<<16 | (n)<<5 | (d)) // smax vd.4s, vn.4s, vm.4s
#define SMINV4S(n, d) WORD $(0x4eb1a800 | (n)<<5 | (d)) // sminv sd, vn.4s
#define SMAXV4S(n, d) WORD $(0x4eb0a800 | (n)<<5 | (d)) // smaxv sd, vn.4s
#define UMINV4S(n, d) WORD $(0x6eb1a800 | (n)<<5 | (d)) // uminv sd, vn.4s
#define UMAXV4S(n, d) WORD $(0x6eb0a800 | (n)<<5 | (d)) // umaxv sd, vn.4s
#define UMAXP4S(m, n, d) WORD $(0x6ea0a400 | (m)<<16 | (n)<<5 | (d)) // umaxp vd.4s, vn.4s, vm.4s
#define UMINP4S(m, n, d) WORD $(0x6ea0ac00 | (m)<<16 | (n)<<5 | (d)) // uminp vd.4s, vn.4s, vm.4s

// Four integers of 32 bits are added to two of 64 in pairs; two are multiplied and added to two.
#define UADALP2D(n, d) WORD $(0x6ea06800 | (n)<<5 | (d)) // uadalp vd.2d, vn.4s
#define UMLAL2D(m, n, d) WORD $(0x2ea08000 | (m)<<16 | (n)<<5 | (d)) // umlal vd.2d, vn.2s, vm.2s
#define UMLAL22D(m, n, d) WORD $(0x6ea08000 | (m)<<16 | (n)<<5 | (d)) // umlal2 vd.2d, vn.4s, vm.4s

// Lanes: the first ones of n and m; the sum of both of n; and the 16, 32 and 64 bits at index m from
// the address in n on, in the first lane, with zeros in all others.
#define ZIP2D(m, n, d) WORD $(0x4ec03800 | (m)<<16 | (n)<<5 | (d)) // zip1 vd.2d, vn.2d, vm.2d
#define ADDP2D(n, d) WORD $(0x5ef1b800 | (n)<<5 | (d)) // addp dd, vn.2d
#define LOADH(m, n, d) WORD $(0x7c60d800 | (m)<<16 | (n)<<5 | (d)) // ldr hd, [xn,wm,sxtw #1]
#define LOADS(m, n, d) WORD $(0xbc60d800 | (m)<<16 | (n)<<5 | (d)) // ldr sd, [xn,wm,sxtw #2]
#define LOADD(m, n, d) WORD $(0xfc60d800 | (m)<<16 | (n)<<5 | (d)) // ldr dd, [xn,wm,sxtw #3]

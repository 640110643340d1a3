package neon

// Widen fills to with base + units[i]*unit, which must be exact, for n units, a positive multiple
// of 8.
//
//go:noescape
func Widen(to *float64, units *uint32, n int, base, unit float64)

// Since fills out with c[2+k%4] - k/4*c[1] + to[k]*c[0] + late[to[k]-before] for n steps, a positive
// multiple of 4. All of these must be exact.
//
//go:noescape
func Since(out *float64, to *int32, late *uint16, n int, before int64, c *[6]float64)

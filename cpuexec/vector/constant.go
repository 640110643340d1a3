package vector

import "github.com/promwarp/promwarp/plan"

// withConstant returns a loop that applies an arithmetic operator with a constant
// in place to every value, or nil if the operator is not worth one.
func withConstant(m *plan.Map) func(vals []float64) {
	c := m.Args[0]
	switch {
	case m.Func.Name == "+":
		return func(vals []float64) {
			for k, v := range vals {
				vals[k] = v + c
			}
		}
	case m.Func.Name == "*":
		return func(vals []float64) {
			for k, v := range vals {
				vals[k] = v * c
			}
		}
	case m.Func.Name == "-" && m.Swap:
		return func(vals []float64) {
			for k, v := range vals {
				vals[k] = c - v
			}
		}
	case m.Func.Name == "-":
		return func(vals []float64) {
			for k, v := range vals {
				vals[k] = v - c
			}
		}
	case m.Func.Name == "/" && m.Swap:
		return func(vals []float64) {
			for k, v := range vals {
				vals[k] = c / v
			}
		}
	case m.Func.Name == "/":
		return func(vals []float64) {
			for k, v := range vals {
				vals[k] = v / c
			}
		}
	}
	return nil
}

// holdsFor returns the comparison of up to 64 values with m's constant: bit k of
// the result says that it holds for value k.
func holdsFor(m *plan.Map) func(vals []float64) uint64 {
	c, name := m.Args[0], m.Func.Name
	if m.Swap {
		name = mirrored[name]
	}
	switch name {
	case "==", "!=":
		flip := uint64(0)
		if name == "!=" {
			flip = ^flip
		}
		return func(vals []float64) (mask uint64) {
			for k, v := range vals {
				bit := uint64(0)
				if v == c {
					bit = 1
				}
				mask |= bit << (k & 63)
			}
			return mask ^ flip
		}
	case ">":
		return func(vals []float64) (mask uint64) {
			for k, v := range vals {
				bit := uint64(0)
				if v > c {
					bit = 1
				}
				mask |= bit << (k & 63)
			}
			return mask
		}
	case "<":
		return func(vals []float64) (mask uint64) {
			for k, v := range vals {
				bit := uint64(0)
				if v < c {
					bit = 1
				}
				mask |= bit << (k & 63)
			}
			return mask
		}
	case ">=":
		return func(vals []float64) (mask uint64) {
			for k, v := range vals {
				bit := uint64(0)
				if v >= c {
					bit = 1
				}
				mask |= bit << (k & 63)
			}
			return mask
		}
	default: // <=
		return func(vals []float64) (mask uint64) {
			for k, v := range vals {
				bit := uint64(0)
				if v <= c {
					bit = 1
				}
				mask |= bit << (k & 63)
			}
			return mask
		}
	}
}

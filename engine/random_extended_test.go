package engine

import (
	"math/rand/v2"
	"strings"
)

// anyExtended writes a function of an anchored or smoothed range selector, or such an
// instant selector. One of many is an error.
func anyExtended(r *rand.Rand, sel, window, mod string) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	if r.IntN(2) == 0 { // in either order
		mod = " %s" + mod
	} else {
		mod += " %s"
	}
	modifier, functions := "smoothed", []string{"rate", "increase", "delta", "rate"}
	switch r.IntN(9) {
	case 0:
		return sel + strings.Replace(mod, "%s", "anchored", 1)
	case 1, 2:
		return sel + strings.Replace(mod, "%s", modifier, 1)
	case 3:
		return pick("timestamp", "start_timestamp", "absent") + "(" + sel + strings.Replace(mod, "%s", modifier, 1) + ")"
	case 4, 5, 6:
		modifier, functions = "anchored", append(functions, "changes", "resets", "changes", "resets")
	}
	if r.IntN(60) == 0 {
		functions = []string{"irate", "sum_over_time", "resets", "last_over_time", "absent_over_time"}
	}
	return pick(functions...) + "(" + sel + window + strings.Replace(mod, "%s", modifier, 1) + ")"
}

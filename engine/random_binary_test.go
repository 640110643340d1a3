package engine

import (
	"fmt"
	"math/rand/v2"
)

// binaryOps are the operators between two vectors, but for those on sets.
var binaryOps = []string{
	"+", "-", "*", "/", "%", "^", "atan2",
	"==", "!=", ">", "<", ">=", "<=", "== bool", "!= bool", "> bool", "< bool", ">= bool", "<= bool",
}

func oneOf(r *rand.Rand, s ...string) string { return s[r.IntN(len(s))] }

// anyBinary applies an operator with any matching to two vectors, which mostly
// do not fit.
func anyBinary(r *rand.Rand, lhs, rhs string) string {
	matching := oneOf(r, "", "", "on (job, instance)", "on (instance)", "on (job)", "on ()", "on (__name__, job)",
		"ignoring (job)", "ignoring (version)", "ignoring (job, instance)", "ignoring ()")
	if matching != "" && r.IntN(2) == 0 {
		matching += oneOf(r, " group_left ", " group_right ") + oneOf(r, "()", "()", "(version)", "(nope)")
	}
	return "(" + lhs + ") " + oneOf(r, binaryOps...) + " " + matching + anyFill(r) + " (" + rhs + ")"
}

// anyFill is mostly empty, and else says what to fill in for series without a match.
func anyFill(r *rand.Rand) string {
	return oneOf(r, "", "", "", "", "", " fill (0)", " fill (7)", " fill_left (1)", " fill_right (NaN)", " fill_right (-2) fill_left (3)")
}

// likelyBinary applies an operator to two vectors that are likely to fit.
func likelyBinary(r *rand.Rand, leaf func() string) string {
	names := []string{"reqs_total", "errs_total", "temp", "odd"}
	one := func() string {
		name := oneOf(r, names...)
		return oneOf(r, name, "rate("+name+"[5m])", "abs("+name+")", "-"+name, "max_over_time("+name+"[3m])", name+" > 10", "sum by (job, instance) ("+leaf()+")")
	}
	op := oneOf(r, binaryOps...)
	switch r.IntN(7) {
	case 0:
		by := oneOf(r, "by (job)", "by (instance)", "without (instance)", "by (job, instance)", "")
		agg := func() string { return oneOf(r, "sum", "avg", "max") + " " + by + " (" + leaf() + ")" }
		return agg() + " " + op + anyFill(r) + " " + agg()
	case 1:
		return "(" + one() + ") " + op + oneOf(r, "", " on (job, instance)", " ignoring (version)", " ignoring (version, nope)") + anyFill(r) + " (" + one() + ")"
	case 2:
		return "(" + one() + ") " + op + " on (job, instance) group_left (" + oneOf(r, "version", "version", "", "version, nope") + ")" + anyFill(r) + " build_info"
	case 3:
		return "build_info " + op + " on (job, instance) group_right (" + oneOf(r, "version", "version", "", "__name__") + ")" + anyFill(r) + " (" + one() + ")"
	case 4:
		return "(" + one() + ") " + op + " on (job) group_left () " + anyFill(r) + " " + oneOf(r, "sum", "count", "stdvar") + " by (job) (" + leaf() + ")"
	case 5:
		return "sum by (job) (" + leaf() + ") " + op + " ignoring (instance) group_right (" + oneOf(r, "", "nope") + ")" + anyFill(r) + " (" + one() + ")"
	default:
		return "(" + one() + ") " + op + " ignoring (version) group_left () build_info"
	}
}

// anyScalar writes a scalar; vector writes vectors to take one of.
func anyScalar(r *rand.Rand, vector func() string, depth int) string {
	sub := func() string { return anyScalar(r, vector, depth-1) }
	switch k := r.IntN(9); {
	case k < 2 || depth == 0:
		return oneOf(r, "time()", "time()", "2", "0.5", "-(3)", "pi()", "NaN", "step()", "start()", "range()", "end()")
	case k == 8:
		return oneOf(r, "min_of", "max_of") + "(" + sub() + ", " + sub() + ")"
	case k < 4:
		return "scalar(" + oneOf(r, "sum", "max", "") + "(" + vector() + "))"
	case k < 5:
		return "-(" + sub() + ")"
	default:
		return "(" + sub() + " " + oneOf(r, "+", "-", "*", "/", "%", "^", "atan2", "> bool", "== bool", "<= bool") + " " + sub() + ")"
	}
}

// anyScalarMap applies an operator or function of one vector and scalars that
// may vary by step.
func anyScalarMap(r *rand.Rand, vector func() string, in string) string {
	scalar := func() string { return anyScalar(r, vector, 2) }
	switch r.IntN(8) {
	case 0:
		return fmt.Sprintf("clamp(%s, %s, %s)", in, scalar(), scalar())
	case 1:
		return fmt.Sprintf("%s(%s, %s)", oneOf(r, "clamp_min", "clamp_max", "round"), in, scalar())
	case 2:
		return oneOf(r, "vector("+scalar()+")", "minute()", "hour()", "day_of_week()", "days_in_month()", "year()")
	case 3:
		return fmt.Sprintf("(%s) %s %s vector(%s)", in, oneOf(r, "or", "and", "unless", "+", ">"), oneOf(r, "", "on ()"), scalar())
	case 4:
		return scalar() + " " + oneOf(r, binaryOps...) + " (" + in + ")"
	default:
		return "(" + in + ") " + oneOf(r, binaryOps...) + " " + scalar()
	}
}

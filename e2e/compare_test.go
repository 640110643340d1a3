package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tolerance is how far apart two values may be, relative to the larger one.
const tolerance = 1e-12

// requireSame requires two servers' answers to say the same.
func requireSame(t *testing.T, want, got answer, ordered bool, what string) {
	t.Helper()
	require.NoError(t, same(want, got, ordered), what)
}

// same says how the answers differ: in status, errors, warnings, infos, type,
// series, timestamps, or values by more than the tolerance. The order of the
// series counts if ordered is set, and in any matrix.
func same(want, got answer, ordered bool) error {
	w, err := want.parse()
	if err != nil {
		return fmt.Errorf("the expected answer: %w", err)
	}
	g, err := got.parse()
	if err != nil {
		return err
	}
	switch {
	case want.code != got.code || w.Status != g.Status || w.ErrorType != g.ErrorType || !sameError(w.Error, g.Error):
		return fmt.Errorf("status %d %s %s %q instead of %d %s %s %q", got.code, g.Status, g.ErrorType, g.Error, want.code, w.Status, w.ErrorType, w.Error)
	case !sameStrings(w.Warnings, g.Warnings):
		return fmt.Errorf("warnings %q instead of %q", g.Warnings, w.Warnings)
	case !sameStrings(w.Infos, g.Infos):
		return fmt.Errorf("infos %q instead of %q", g.Infos, w.Infos)
	case w.Data.ResultType != g.Data.ResultType:
		return fmt.Errorf("result type %q instead of %q", g.Data.ResultType, w.Data.ResultType)
	}
	switch w.Data.ResultType {
	case "":
		return nil
	case "matrix", "vector":
		return sameSeries(w.Data.Result, g.Data.Result, ordered || w.Data.ResultType == "matrix")
	default:
		var wp, gp point
		if err := json.Unmarshal(w.Data.Result, &wp); err != nil {
			return err
		}
		if err := json.Unmarshal(g.Data.Result, &gp); err != nil {
			return err
		}
		return samePoints([]point{wp}, []point{gp})
	}
}

// sameError compares the texts of errors but for which of several duplicate series they
// name, which is chance in Prometheus where an operator has fill values.
func sameError(a, b string) bool {
	const duplicate = "found duplicate series for the match group "
	x, _, both := strings.Cut(a, duplicate)
	y, _, too := strings.Cut(b, duplicate)
	return a == b || both && too && x == y
}

// sameStrings ignores the order: the annotations of a query have none.
func sameStrings(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

func sameSeries(want, got json.RawMessage, ordered bool) error {
	var ws, gs []series
	if err := json.Unmarshal(want, &ws); err != nil {
		return err
	}
	if err := json.Unmarshal(got, &gs); err != nil {
		return err
	}
	if len(ws) != len(gs) {
		return fmt.Errorf("%d series instead of %d", len(gs), len(ws))
	}
	if !ordered {
		sort.Slice(ws, func(i, j int) bool { return ws[i].String() < ws[j].String() })
		sort.Slice(gs, func(i, j int) bool { return gs[i].String() < gs[j].String() })
	}
	for i := range ws {
		w, g := &ws[i], &gs[i]
		if w.String() != g.String() {
			return fmt.Errorf("series %d is %s instead of %s", i, g, w)
		}
		if string(w.Histogram)+string(w.Histograms) != string(g.Histogram)+string(g.Histograms) {
			return fmt.Errorf("series %s: other histograms", w)
		}
		if err := samePoints(append(w.Values, w.Value), append(g.Values, g.Value)); err != nil {
			return fmt.Errorf("series %s: %w", w, err)
		}
	}
	return nil
}

func samePoints(want, got []point) error {
	if len(want) != len(got) {
		return fmt.Errorf("%d points instead of %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if w.t != g.t {
			return fmt.Errorf("point %d is at %s instead of %s", i, g.t, w.t)
		}
		if w.v != g.v && !near(w.v, g.v) {
			return fmt.Errorf("the value at %s is %s instead of %s", w.t, g.v, w.v)
		}
	}
	return nil
}

// near says whether two numbers are within the tolerance.
func near(a, b string) bool {
	x, err := strconv.ParseFloat(a, 64)
	if err != nil {
		return false
	}
	y, err := strconv.ParseFloat(b, 64)
	if err != nil {
		return false
	}
	if math.IsInf(x, 0) || math.IsInf(y, 0) {
		return x == y
	}
	return math.Abs(x-y) <= tolerance*max(math.Abs(x), math.Abs(y))
}

func TestCompare(t *testing.T) {
	matrix := func(values string) answer {
		return answer{200, []byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"job":"a"},"values":` + values + `}]}}`)}
	}
	want := matrix(`[[1,"1"],[2.5,"NaN"],[3,"+Inf"]]`)
	require.NoError(t, same(want, want, false))
	require.NoError(t, same(want, matrix(`[[1,"1.0000000000000002"],[2.5,"NaN"],[3,"+Inf"]]`), false))
	for _, other := range []string{
		`[[1,"1.00000000001"],[2.5,"NaN"],[3,"+Inf"]]`,
		`[[1,"1"],[2,"NaN"],[3,"+Inf"]]`,
		`[[1,"1"],[2.5,"0"],[3,"+Inf"]]`,
		`[[1,"1"],[2.5,"NaN"],[3,"-Inf"]]`,
		`[[1,"1"],[2.5,"NaN"]]`,
	} {
		require.Error(t, same(want, matrix(other), false), other)
	}
	require.Error(t, same(want, answer{200, []byte(`{"status":"success","warnings":["w"],"data":{"resultType":"matrix","result":[]}}`)}, false))
	require.Error(t, same(want, answer{500, want.body}, false))
	require.Error(t, same(want, answer{200, []byte("hello")}, false))
}

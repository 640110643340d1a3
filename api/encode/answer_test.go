package encode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

func prometheus(t testing.TB, r Result) string {
	t.Helper()
	b, err := byPrometheus(r)
	require.NoError(t, err)
	return string(b)
}

// equal compares texts, which may be long, and shows where they differ.
func equal(t testing.TB, want, got, what string) {
	t.Helper()
	if want == got {
		return
	}
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	around := func(s string) string { return s[max(0, min(i, len(s))-60):min(len(s), i+60)] }
	t.Fatalf("%s: differs at byte %d of %d and %d\nwant …%q…\ngot  …%q…", what, i, len(want), len(got), around(want), around(got))
}

// check compares all ways to encode a response with Prometheus's.
func check(t testing.TB, resp Result, what string) {
	t.Helper()
	checkAs(t, resp, prometheus(t, resp), what)
}

// checkAs compares all ways to encode a response with what it is to be.
func checkAs(t testing.TB, resp Result, want, what string) {
	t.Helper()
	a, err := New(resp)
	require.NoError(t, err)
	equal(t, want, whole(a), what)
	for _, weight := range []int{1, 10, 100} {
		b := slices.Clone(a.head)
		for from := (cursor{}); from != a.end; {
			to, _ := a.rows.next(from, weight)
			b = a.rows.append(b, from, to)
			from = to
		}
		equal(t, want, string(append(b, a.tail...)), fmt.Sprint(what, ", pieces of ", weight))
	}
	for _, a.cores = range []int{1, 3} {
		equal(t, want, written(t, a), fmt.Sprint(what, " on ", a.cores))
	}
}

// whole is an answer that is encoded at once.
func whole(a *Answer) string {
	return string(append(a.rows.append(slices.Clone(a.head), cursor{}, a.end), a.tail...))
}

// written is what an answer writes, piece by piece.
func written(t testing.TB, a *Answer) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, a.WriteRest(&b))
	return string(a.head) + b.String()
}

// random is how many random cases a test has: PROMWARP_RANDOM, or otherwise n, a third in short runs.
func random(t *testing.T, n int) int {
	if text := os.Getenv("PROMWARP_RANDOM"); text != "" {
		asked, err := strconv.Atoi(text)
		require.NoError(t, err)
		return asked
	}
	if testing.Short() {
		return n / 3
	}
	return n
}

func TestRandomResponses(t *testing.T) {
	for seed := range uint64(random(t, 1500)) {
		check(t, randomResponse(rand.New(rand.NewPCG(seed, 1))), fmt.Sprint("seed ", seed))
	}
}

// An executor's matrix is written as Prometheus's encoder writes the same points.
func TestExecutorsMatrix(t *testing.T) {
	for seed := range uint64(random(t, 1000)) {
		m, points := randomSteps(rand.New(rand.NewPCG(seed, 2)))
		checkAs(t, respond(m), prometheus(t, respond(points)), fmt.Sprint("seed ", seed))
	}
}

func TestFixedResponses(t *testing.T) {
	some := promql.Series{Metric: labels.FromStrings("a", "b"), Floats: []promql.FPoint{{T: 1, F: 2}}}
	for i, v := range []parser.Value{
		promql.Matrix(nil), promql.Matrix{}, promql.Vector(nil), promql.Vector{},
		promql.Matrix{{}}, promql.Matrix{{}, some, {}}, promql.Vector{{}},
		promql.Scalar{V: math.NaN()}, promql.Scalar{T: 1500, V: math.Inf(-1)}, promql.String{V: "<\u2028\xff\">"},
	} {
		check(t, respond(v), fmt.Sprint("value ", i))
	}
}

func TestLargeAnswer(t *testing.T) {
	for _, k := range kinds {
		resp := respond(k.matrix(300, 400))
		want := prometheus(t, resp)
		a, err := New(resp)
		require.NoError(t, err)
		require.Greater(t, a.weight, pieceWeight)
		for _, a.cores = range []int{1, 2, 16} {
			equal(t, want, written(t, a), fmt.Sprint(k.name, " on ", a.cores))
		}
	}
}

// broken is a writer that fails after some bytes.
type broken struct{ left int }

var errBroken = errors.New("broken pipe")

func (b *broken) Write(p []byte) (int, error) {
	if len(p) > b.left {
		n := b.left
		b.left = 0
		return n, errBroken
	}
	b.left -= len(p)
	return len(p), nil
}

func TestWriterFails(t *testing.T) {
	a, err := New(respond(kinds[0].matrix(100, 1000)))
	require.NoError(t, err)
	whole := len(whole(a)) - len(a.head)
	for _, a.cores = range []int{1, 4} {
		for _, at := range []int{0, 10, whole / 3, whole - len(a.tail), whole - 1} {
			require.ErrorIs(t, a.WriteRest(&broken{at}), errBroken)
		}
	}
}

// A malformed histogram panics where the answer is encoded for, not in a
// worker.
func TestMalformedHistogram(t *testing.T) {
	m := kinds[0].matrix(100, 1000)
	m[50].Histograms = []promql.HPoint{{T: 1}} // without a histogram
	resp := respond(m)
	require.Panics(t, func() { prometheus(t, resp) })
	a, err := New(resp)
	require.NoError(t, err)
	require.Panics(t, func() { a.Begin() }, "before a status is sent")
	for _, a.cores = range []int{1, 4} {
		require.Panics(t, func() { _ = a.WriteRest(io.Discard) })
	}
	ok, err := New(respond(kinds[0].matrix(100, 1000)))
	require.NoError(t, err)
	_, all := ok.Begin()
	require.False(t, all)
}

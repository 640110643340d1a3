package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prometheus/prometheus/promql/parser"
)

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100-i) * time.Millisecond
	}
	for _, c := range []struct {
		name  string
		all   []time.Duration
		share float64
		want  time.Duration
	}{
		{"none", nil, 0.99, 0},
		{"one", []time.Duration{7}, 0.99, 7},
		{"the median of two is the lower", []time.Duration{9, 3}, 0.5, 3},
		{"99 of 100", hundred, 0.99, 99 * time.Millisecond},
		{"the largest", hundred, 1, 100 * time.Millisecond},
		{"the smallest", hundred, 0, time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, percentile(c.all, c.share)) })
	}
	require.Equal(t, 100*time.Millisecond, hundred[0], "what was given is left as it was")
}

func TestPace(t *testing.T) {
	for _, c := range []struct {
		name string
		pace pace
		held bool
	}{
		{"as fast", pace{got: time.Second, want: time.Second, deadline: time.Minute, compare: true, patience: 1}, true},
		{"half as long again and 10 ms", pace{got: 1510 * time.Millisecond, want: time.Second, deadline: time.Minute, compare: true, patience: 1}, true},
		{"a little longer", pace{got: 1511 * time.Millisecond, want: time.Second, deadline: time.Minute, compare: true, patience: 1}, false},
		{"a little longer on a busy machine", pace{got: 1511 * time.Millisecond, want: time.Second, deadline: time.Minute, compare: true, patience: 2}, true},
		{"both slow, at the deadline", pace{got: 10 * time.Second, want: time.Minute, deadline: 10 * time.Second, compare: true, patience: 1}, true},
		{"both slow, after the deadline", pace{got: 11 * time.Second, want: time.Minute, deadline: 10 * time.Second, slack: 100 * time.Millisecond, compare: true, patience: 1}, false},
		{"alone, before the deadline", pace{got: 9 * time.Second, deadline: 10 * time.Second}, true},
		{"alone, within the slack", pace{got: 10*time.Second + 100*time.Millisecond, deadline: 10 * time.Second, slack: 100 * time.Millisecond}, true},
		{"alone, after it", pace{got: 10*time.Second + 101*time.Millisecond, deadline: 10 * time.Second, slack: 100 * time.Millisecond}, false},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.held, c.pace.held()) })
	}
}

func TestParseResident(t *testing.T) {
	r, err := parseResident("Name:\tx\nVmRSS:\t  2048 kB\nRssAnon:\t    1024 kB\nRssFile:\t 1024 kB\n")
	require.NoError(t, err)
	require.Equal(t, resident{all: 2 << 20, anonymous: 1 << 20}, r)
	_, err = parseResident("Name:\tkthreadd\n")
	require.Error(t, err)
	_, err = parseResident("VmRSS:\tmuch kB\n")
	require.ErrorContains(t, err, "VmRSS")
}

func TestParseMetrics(t *testing.T) {
	m, err := parseMetrics(strings.NewReader("# HELP a b\na 1\nb{x=\"y z\"} 2\nb{x=\"}\"} 3\nc +Inf\n\n"))
	require.NoError(t, err)
	require.Equal(t, 1.0, m["a"])
	require.Equal(t, 5.0, m["b"])
}

func TestJudgeState(t *testing.T) {
	before := state{memory: resident{anonymous: 100}, kept: 10, goroutines: 20}
	require.Equal(t, "holds", judgeState(before, state{memory: resident{anonymous: 110}, kept: 10, goroutines: 72}).word())
	require.Equal(t, "holds", judgeState(before, state{memory: resident{anonymous: 150}, kept: 50, goroutines: 20}).word(), "more is kept on purpose")
	require.Equal(t, "BROKEN", judgeState(before, state{memory: resident{anonymous: 111}, kept: 10, goroutines: 20}).word())
	require.Equal(t, "BROKEN", judgeState(before, state{memory: resident{anonymous: 111}, kept: 0, goroutines: 20}).word(), "less is kept")
	require.Equal(t, "BROKEN", judgeState(before, state{memory: resident{anonymous: 100}, kept: 10, goroutines: 73}).word())
}

func TestJudgeCrowd(t *testing.T) {
	crowd := func(clients, answered int, longest time.Duration) served {
		return served{clients: clients, answered: answered, took: 10 * time.Second, longestToRefuse: longest, refused: map[string]int{}}
	}
	few := crowd(20, 100, 0)
	for _, c := range []struct {
		name  string
		many  served
		known bool
		word  string
	}{
		{"as many", crowd(500, 100, 10*time.Second), true, "holds"},
		{"a tenth less", crowd(500, 90, 0), true, "holds"},
		{"fewer", crowd(500, 89, 0), true, "BROKEN"},
		{"a late refusal", crowd(500, 100, 10*time.Second+101*time.Millisecond), true, "BROKEN"},
		{"no queue", crowd(500, 100, 0), false, "BROKEN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.word, judgeCrowd(few, c.many, bars{queue: 10 * time.Second, known: c.known, slack: 100 * time.Millisecond, patience: 1}).word())
		})
	}
	one := bars{queue: time.Second, known: true, patience: 1}
	many := crowd(500, 100, 0)
	many.withoutRetryAfter = 1
	require.Equal(t, "BROKEN", judgeCrowd(few, many, one).word())
	require.Equal(t, "BROKEN", judgeCrowd(crowd(20, 0, 0), crowd(500, 0, 0), one).word(), "nothing is served")
}

func TestJudgeLooks(t *testing.T) {
	all := func(each time.Duration) looked { return looked{took: []time.Duration{each, each}} }
	require.Equal(t, "holds", judgeLooks(all(200), all(1000), 5).word())
	require.Equal(t, "BROKEN", judgeLooks(all(201), all(1000), 5).word())
	require.Equal(t, "holds", judgeLooks(all(1000), all(1000), 1).word(), "on a busy machine")
	require.Equal(t, "holds", judgeLooks(all(2000), looked{}, 0).word())
	require.Equal(t, "BROKEN", judgeLooks(looked{}, looked{}, 0).word(), "nothing was answered")
	bad := all(1)
	bad.failed = map[string]int{"503": 1}
	require.Equal(t, "BROKEN", judgeLooks(bad, all(1000), 5).word())
}

func TestProbedJudge(t *testing.T) {
	word := func(p probed) string {
		var v verdict
		p.judge(&v, time.Second)
		return v.word()
	}
	require.Equal(t, "holds", word(probed{asked: 100, p99: 999 * time.Millisecond, failed: map[string]int{"503": 1}}))
	require.Equal(t, "BROKEN", word(probed{asked: 100, p99: time.Second}))
	require.Equal(t, "BROKEN", word(probed{asked: 100, failed: map[string]int{"503": 1, "500": 1}}))
}

func TestTogether(t *testing.T) {
	got := together(t.Context(), 3, 10, func(_ context.Context, i int) int { return i * i })
	require.Equal(t, []int{0, 1, 4, 9, 16, 25, 36, 49, 64, 81}, got)
	ctx, cancel := context.WithCancel(t.Context())
	got = together(ctx, 1, 10, func(_ context.Context, i int) int {
		if i == 2 {
			cancel()
		}
		return i
	})
	require.Equal(t, []int{0, 1, 2}, got)
}

func TestChoose(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range attacks() {
		require.False(t, seen[a.name], "two attacks are named %q", a.name)
		seen[a.name] = true
		require.NotContains(t, a.name, ",")
		require.NotEmpty(t, a.what)
		require.NotEmpty(t, a.holds)
	}
	two, err := choose(attacks(), "paths, pipelining")
	require.NoError(t, err)
	require.Len(t, two, 2)
	_, err = choose(attacks(), "nothing")
	require.ErrorContains(t, err, "nothing")
}

// Most of the queries of the grammar are ones that parse, so that more than the parser is tried.
func TestRandomDeep(t *testing.T) {
	e := &env{seed: 1}
	r, parsed := e.random(1), 0
	for range 300 {
		q := randomDeep(r, 1+r.IntN(3))
		if _, err := parser.NewParser(parser.Options{}).ParseExpr(q); err == nil {
			parsed++
		}
	}
	require.Greater(t, parsed, 150)
	require.Equal(t, randomDeep(e.random(4), 20), randomDeep(e.random(4), 20), "a seed makes the same again")
}

func TestJudgeLog(t *testing.T) {
	require.Equal(t, "holds", judgeLog("ts=1 level=INFO msg=ready\n").word())
	for _, bad := range []string{"==================\nWARNING: DATA RACE\n", "fatal error: stack overflow", "panic: runtime error"} {
		require.Equal(t, "BROKEN", judgeLog("ts=1\n"+bad).word(), bad)
	}
}

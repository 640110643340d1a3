package backtest

import (
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/plan"
)

// hours reads a number of hours since the epoch.
func hours(s string) (time.Time, error) {
	n, err := strconv.Atoi(s)
	return time.Unix(int64(n)*3600, 0), err
}

// TestExpectations: what alerts must do, against what they did.
func TestExpectations(t *testing.T) {
	alert := func(job string, firings ...int) *Alert { // each fires for an hour
		a := &Alert{Labels: labels.FromStrings("alertname", "A", "job", job)}
		for _, h := range firings {
			at := model.Time(h * 3_600_000)
			a.Spells = append(a.Spells, Spell{State: "pending", Start: at - 60_000, End: at}, Spell{State: "firing", Start: at, End: at + 3_600_000})
		}
		return a
	}
	reports := []*Report{
		{Alert: "A", End: 1000 * 3_600_000, Alerts: []*Alert{alert("x", 10, 20, 200), alert("y", 15)}},
		{Alert: "B", End: 1000 * 3_600_000, Error: "it failed"},
	}
	for _, c := range []struct{ kind, text, failure string }{
		{MustFire, "A@10..11", ""},
		{MustFire, "A@11..14", ""}, // the first ends then
		{MustFire, "A@12..14", "it did not fire in that time"},
		{MustFire, `A{job="y"}@10..12`, "it did not fire in that time"},
		{MustFire, `{alertname=~"A|C",job!="y"}@150..300`, ""},
		{MustFire, "B@10..12", `the alert "B" could not be tried`},
		{MustNotFire, "A@12..14", ""},
		{MustNotFire, "A@12..300", "it fired at 1970-01-01T15:00:00Z"},
		{AtMost, "A=3/day", ""},
		{AtMost, "A=2/day", "it fired more than 2 times within 1d from 1970-01-01T10:00:00Z on"},
		{AtMost, "A=2/10h", ""},
		{AtMost, "A=1/5h", ""},
		{AtMost, "A=1/301m", "it fired more than 1 times within 5h1m from 1970-01-01T10:00:00Z on"},
		{AtMost, `A{job="x"}=2/week`, ""},
		{AtMost, `A{job="x"}=2/2w`, "it fired more than 2 times within 2w from 1970-01-01T10:00:00Z on"},
		{AtMost, `A{job="z"}=0/week`, ""},
	} {
		e, err := Expect(c.kind, c.text, hours)
		require.NoError(t, err, c.text)
		require.NoError(t, e.Check(reports), c.text)
		require.Equal(t, c.failure, e.Failure, "%s %s", c.kind, c.text)
		require.Equal(t, c.failure == "", e.Holds)
	}
	for _, c := range [][2]string{{MustFire, "C@1..2"}, {AtMost, "C=1/day"}, {MustFire, "A@1001..1002"}} {
		e, err := Expect(c[0], c[1], hours)
		require.NoError(t, err)
		require.Error(t, e.Check(reports), c)
	}
}

// TestRetained: results are kept within a share of memory, those asked for last, and are counted until
// they are garbage.
func TestRetained(t *testing.T) {
	pool := memory.New(memory.Options{Limit: 64 << 20}) // 4 MiB of it
	r := NewRetained(pool)
	rows := func(mib int) []plan.Row {
		n := mib << 17
		return []plan.Row{{Labels: labels.FromStrings("a", "b"), Values: make([]float64, n), Runs: []plan.Run{{Len: int32(n)}}}}
	}
	has := func(keys ...string) {
		t.Helper()
		for _, key := range []string{"1", "2", "3", "large"} {
			_, _, ok := r.Get(key)
			require.Equal(t, slices.Contains(keys, key), ok, key)
		}
	}
	first := rows(1)
	kept := r.Keep("1", first, nil)
	require.NotSame(t, &first[0].Values[0], &kept[0].Values[0], "it is a copy")
	r.Keep("2", rows(1), nil)
	r.Keep("large", rows(5), nil)
	has("1", "2")
	require.Greater(t, pool.Parts()[string(memory.Evaluation)], int64(2<<20))
	r.Keep("3", rows(3), nil)
	has("3")
	r.Keep("3", rows(1), nil)
	r.Keep("2", rows(1), nil)
	has("2", "3")
	r.forget("2")
	has("3")
	r.Clear()
	has()
	require.Zero(t, r.bytes)
	require.Eventually(t, func() bool {
		runtime.GC()
		return pool.Parts()[string(memory.Evaluation)] < 2<<20 // what is in use
	}, 10*time.Second, 10*time.Millisecond)
	runtime.KeepAlive(kept)
}

package remoteread

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/progress"
	"github.com/promwarp/promwarp/selection"
)

// labelled returns n series, in label order. f returns names and values.
func labelled(n int, f func(i int) []string) []labels.Labels {
	out := make([]labels.Labels, n)
	for i := range out {
		out[i] = labels.FromStrings(append(f(i), "__name__", "m", "i", fmt.Sprintf("%05d", i))...)
	}
	slices.SortFunc(out, labels.Compare)
	return out
}

func TestDivide(t *testing.T) {
	const n = 2 * partSeries
	for _, test := range []struct {
		name   string
		series []labels.Labels
		want   division
	}{
		{"none", nil, division{}},
		{"too few", labelled(n-1, func(i int) []string { return []string{"a", fmt.Sprint(i % 2)} }), division{}},
		{"two values", labelled(n, func(i int) []string { return []string{"a", fmt.Sprint(i % 2)} }), division{"a", []string{"0"}}},
		{"no value and one", labelled(n, func(i int) []string {
			if i%2 == 0 {
				return nil
			}
			return []string{"a", "b"}
		}), division{}}, // of one value
		{"no value and two", labelled(n, func(i int) []string {
			if i%2 == 0 {
				return nil
			}
			return []string{"a", fmt.Sprint(i % 4)}
		}), division{"a", []string{"1|3"}}},
		{"one value has nearly all", labelled(n, func(i int) []string { return []string{"a", fmt.Sprint(min(i%10, 1))} }), division{}},
		{"of unequal values", labelled(n, func(i int) []string { return []string{"a", fmt.Sprint(min(i%5, 3))} }), division{"a", []string{"3|2"}}},
		{"the fewest values", labelled(n, func(i int) []string { return []string{"b", fmt.Sprint(i % 3), "c", fmt.Sprint(i % 2)} }), division{"c", []string{"0"}}},
		{"targets first", labelled(n, func(i int) []string {
			return []string{"a", fmt.Sprint(i % 2), "instance", fmt.Sprint(i % 4), "job", fmt.Sprint(i % 2)}
		}), division{"instance", []string{"0|2"}}},
		{"one instance", labelled(n, func(i int) []string {
			return []string{"instance", "i", "job", fmt.Sprint(i % 2)}
		}), division{"job", []string{"0"}}},
		{"values that mean something else", labelled(n, func(i int) []string { return []string{"a", []string{`x|y.\`, "z"}[i%2]} }), division{"a", []string{`x\|y\.\\`}}},
		{"long values", labelled(n, func(i int) []string { return []string{"a", strings.Repeat("x", maxDivideBytes/2) + fmt.Sprint(i%2)} }), division{}},
		{"three parts", labelled(3*partSeries, func(i int) []string { return []string{"a", fmt.Sprint(i % 6)} }), division{"a", []string{"0|3", "1|4"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, divide(test.series))
		})
	}
	most := divide(labelled(2*maxParts*partSeries, func(i int) []string { return []string{"a", fmt.Sprint(i % maxParts)} }))
	require.Equal(t, "a", most.label)
	require.Len(t, most.values, maxParts-1)
}

// Whatever series there are, each is of one part.
func TestDivisionIsComplete(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	values := []string{"", "a", "b", "a|b", ".*", "ü\n", `\`, "(", "x{2}", "a.b", "aXb", " ", "A"}
	random := func(of int) []labels.Labels {
		return labelled(partSeries*(2+r.IntN(3)), func(int) []string {
			return []string{"job", values[r.IntN(of)], "z", values[r.IntN(of)]}
		})
	}
	divided := 0
	for range 60 {
		d := divide(random(1 + r.IntN(len(values))))
		if len(d.values) > 0 {
			divided++
		}
		given := []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_EQ, Name: "__name__", Value: "m"}}
		parts := d.matchers(given)
		require.Len(t, given, 1)
		for _, l := range append(random(len(values))[:300], labels.FromStrings("__name__", "m")) {
			of := 0
			for _, p := range parts {
				ms, err := remote.FromLabelMatchers(p)
				require.NoError(t, err)
				if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(l.Get(m.Name)) }) {
					of++
				}
			}
			require.Equal(t, 1, of, "%s by %v", l, d)
		}
	}
	require.Greater(t, divided, 30)
}

// A fetch that is divided brings what one that is not does, new series too, as samples
// and as chunks.
func TestDividedFetch(t *testing.T) {
	const last = int64(1_700_000_000_000)
	store := teststorage.New(t)
	app := store.Appender(t.Context())
	all := labelled(3*partSeries, func(i int) []string {
		switch {
		case i%100 == 0:
			return nil
		case i%100 == 1:
			return []string{"instance", "new"}
		}
		return []string{"instance", fmt.Sprintf("host-%d:80", i%7)}
	})
	for _, i := range rand.New(rand.NewPCG(3, 4)).Perm(len(all)) {
		for k := range int64(4) {
			_, err := app.Append(0, all[i], last-15_000*(3-k), 1+float64(i)/3)
			require.NoError(t, err)
		}
	}
	require.NoError(t, app.Commit())
	h := promHandler(store, 1<<20, 1<<20)
	base, requests := server(t, func(w http.ResponseWriter, r *http.Request, _ int64) { h.ServeHTTP(w, r) })
	c := newClient(t, readConfig(t, base), quick())
	whole, _, err := c.Fetch(t.Context(), last-minute, last, anything)
	require.NoError(t, err)
	require.EqualValues(t, 1, requests.Load())
	known := slices.DeleteFunc(slices.Clone(whole.Series()), func(l labels.Labels) bool { return l.Get("instance") == "new" })
	for _, samples := range []int{0, 4} {
		ctx := selection.Expect(t.Context(), selection.Expectation{Series: known, Samples: samples})
		for range 3 {
			var told progress.Request
			requests.Store(0)
			got, _, err := c.Fetch(progress.With(ctx, &told), last-minute, last, anything)
			require.NoError(t, err)
			require.Equal(t, chunksOf(whole), chunksOf(got))
			require.EqualValues(t, 2, requests.Load())
			require.Equal(t, got.PayloadBytes(), told.Arrived())
		}
		requests.Store(0)
		got, _, err := c.Fetch(selection.Expect(t.Context(), selection.Expectation{Series: known, Samples: samples, Ahead: true}), last-minute, last, anything)
		require.NoError(t, err)
		require.Equal(t, chunksOf(whole), chunksOf(got))
		require.EqualValues(t, 1, requests.Load(), "nobody waits for it")
	}
}

// When one part fails the fetch does, and what the others brought is gone.
func TestDividedFetchFails(t *testing.T) {
	var mu sync.Mutex
	var negative bool
	base, _ := server(t, func(w http.ResponseWriter, r *http.Request, n int64) {
		req, err := remote.DecodeReadRequest(r)
		if err != nil {
			t.Error(err)
			return
		}
		ms := req.Queries[0].Matchers
		mu.Lock()
		fails := (ms[len(ms)-1].Type == prompb.LabelMatcher_NRE) == negative
		mu.Unlock()
		if fails {
			status(400, "not this part")(w, r, n)
			return
		}
		answerStream(frames(wireSeries(0, 3, "__name__", "a", "j", "0")))(w, r, n)
	})
	c := newClient(t, readConfig(t, base), quick())
	ctx := selection.Expect(t.Context(), selection.Expectation{Series: labelled(2*partSeries, func(i int) []string { return []string{"j", fmt.Sprint(i % 2)} })})
	for range 2 {
		sel, _, err := c.Fetch(ctx, 0, 1, anything)
		require.Nil(t, sel)
		require.ErrorContains(t, err, "not this part")
		mu.Lock()
		negative = true
		mu.Unlock()
	}
}

package resample

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/resample/aggregate"
)

// sample is a sample of a bucket in the plain implementation, in the order of series.
type sample struct {
	t    int64
	v    float64
	next int64 // when the next sample of the series in the bucket is, or the window's end
}

// plainAggregate makes an aggregate of a bucket's samples by its definition in words.
func plainAggregate(name string, q float64, in []sample) float64 {
	vs := make([]float64, len(in))
	for i := range in {
		vs[i] = in[i].v
	}
	byTime := slices.Clone(in)
	slices.SortStableFunc(byTime, func(a, b sample) int { return int(a.t - b.t) })
	lo, hi := math.NaN(), math.NaN()
	for _, v := range vs {
		if v < lo || math.IsNaN(lo) {
			lo = v
		}
		if v > hi || math.IsNaN(hi) {
			hi = v
		}
	}
	first, last := byTime[0], byTime[0]
	for _, s := range byTime {
		if s.t > last.t {
			last = s
		}
	}
	switch name {
	case "count":
		return float64(len(vs))
	case "sum":
		return exact.Sum(vs)
	case "mean":
		return exact.Mean(vs)
	case "min":
		return lo
	case "max":
		return hi
	case "range":
		return hi - lo
	case "var":
		return plainVariance(vs)
	case "std":
		return math.Sqrt(plainVariance(vs))
	case "first":
		return first.v
	case "last":
		return last.v
	case "median":
		return exact.Quantile(0.5, vs)
	case "pct":
		return exact.Quantile(q, vs)
	case "nunique":
		seen := map[float64]bool{}
		nan := 0.0
		for _, v := range vs {
			if math.IsNaN(v) {
				nan = 1
				continue
			}
			seen[v] = true
		}
		return float64(len(seen)) + nan
	case "time_weighted_mean":
		return exactMean(in)
	}
	panic("plainAggregate lacks " + name)
}

// plainVariance is the population variance without rounding errors, which Prometheus's own has where
// values are large and close to each other.
func plainVariance(vs []float64) float64 {
	number := func(v float64) *big.Float { return new(big.Float).SetPrec(2200).SetFloat64(v) }
	sum, squares, n := number(0), number(0), number(float64(len(vs)))
	for _, v := range vs {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return math.NaN()
		}
		sum.Add(sum, number(v))
		squares.Add(squares, number(0).Mul(number(v), number(v)))
	}
	mean := sum.Quo(sum, n)
	out, _ := squares.Quo(squares, n).Sub(squares, mean.Mul(mean, mean)).Float64()
	return out
}

// point is a value of the answer.
type point struct {
	bucket int
	v      float64
}

// plain answers a request the plain way: by series or group and aggregate.
func plain(p *Plan, series []samples) map[string][][]point {
	type key struct {
		group  string
		a, bkt int
	}
	in := map[key][]sample{}
	var groups []string
	for _, s := range series {
		name := s.labels.String()
		if g := p.Grouping; g != nil {
			b := labels.NewBuilder(s.labels)
			if g.Without {
				b.Del(append(slices.Clone(g.Labels), "__name__")...)
			} else {
				b.Keep(g.Labels...)
			}
			name = b.Labels().String()
		}
		if !slices.Contains(groups, name) {
			groups = append(groups, name)
		}
		for a, of := range p.Aggregates {
			var all []sample
			last, had := 0.0, false
			for i, t := range s.ts {
				v := s.vs[i]
				if value.IsStaleNaN(v) || t < p.from || t >= p.to {
					continue
				}
				switch {
				case !of.Rate:
					all = append(all, sample{t: t, v: v})
				case had && v < last:
					all = append(all, sample{t: t, v: v})
				case had:
					all = append(all, sample{t: t, v: v - last})
				}
				last, had = v, true
			}
			for k := range p.Grid.N() {
				var these []sample
				for _, x := range all {
					if x.t >= p.Grid.Starts[k] && x.t < p.Grid.Ends[k] {
						if n := len(these); n > 0 {
							these[n-1].next = x.t
						}
						x.next = p.Grid.Ends[k]
						if p.Layout.ClosedRight { // (a, b] has the samples of [a+1, b+1)
							x.next--
						}
						these = append(these, x)
					}
				}
				if len(these) == 0 {
					continue
				}
				if p.Reaggregate != nil {
					these = []sample{{t: p.Grid.Labels[k], v: plainAggregate(of.Name, of.Q, these), next: p.Grid.Labels[k] + 1}}
				}
				at := key{name, a, k}
				in[at] = append(in[at], these...)
			}
		}
	}
	out := map[string][][]point{}
	for _, g := range groups {
		rows, any := make([][]point, len(p.Aggregates)), false
		for a, of := range p.Aggregates {
			for k := range p.Grid.N() {
				these := in[key{g, a, k}]
				if len(these) == 0 {
					continue
				}
				name := of.Name
				if p.Reaggregate != nil {
					name = p.Reaggregate.Name
				}
				v := plainAggregate(name, of.Q, these)
				if sums := name == "sum" || name == "mean"; sums && (p.Grouping != nil || p.Reaggregate != nil) {
					v = exactSumOf(name, these) // only the sum of one series is Prometheus's
				}
				rows[a] = append(rows[a], point{k, v})
			}
			any = any || len(rows[a]) > 0
		}
		if any {
			for a := range rows {
				rows[a] = plainFill(p, rows[a])
			}
			out[g] = rows
		}
	}
	return out
}

func plainFill(p *Plan, row []point) (out []point) {
	for k := range p.Grid.N() {
		i, found := slices.BinarySearchFunc(row, k, func(x point, k int) int { return x.bucket - k })
		switch {
		case found:
			out = append(out, row[i])
		case p.Fill.Filling == FillNull:
			out = append(out, point{k, Null})
		case p.Fill.Filling == FillNumber:
			out = append(out, point{k, p.Fill.Number})
		case p.Fill.Filling == FillPrev && i > 0:
			out = append(out, point{k, row[i-1].v})
		case p.Fill.Filling == FillLinear && i > 0 && i < len(row):
			a, b := row[i-1], row[i]
			at := func(k int) float64 { return float64(p.Grid.Labels[k]) }
			v := a.v
			if a.v != b.v {
				v += (b.v - a.v) * ((at(k) - at(a.bucket)) / (at(b.bucket) - at(a.bucket)))
			}
			out = append(out, point{k, v})
		}
	}
	return out
}

// rows are a result in the plain form.
func rows(r *Result) map[string][][]point {
	out := map[string][][]point{}
	for _, s := range r.Series {
		all := make([][]point, len(s.Rows))
		for a, row := range s.Rows {
			for i, k := range row.Buckets {
				all[a] = append(all[a], point{int(k), row.Values[i]})
			}
		}
		out[s.Labels.String()] = all
	}
	return out
}

// alike reports whether two values have the same bits, or are NaN, or are within a relative
// distance where that is above 0.
func alike(a, b, within float64) bool {
	if math.IsNaN(a) || math.IsNaN(b) {
		return math.IsNaN(a) && math.IsNaN(b) && IsNull(a) == IsNull(b)
	}
	return math.Float64bits(a) == math.Float64bits(b) || a == b && a == 0 || math.Abs(a-b) <= within*math.Max(math.Abs(a), math.Abs(b))
}

// some is a sixth of n in short runs, of which that under the race detector is one.
func some(n uint64) uint64 {
	if testing.Short() {
		return n / 6
	}
	return n
}

// TestPlain compares random requests with the plain implementation: bit for bit, but for what is
// added up over several series, and variances, whose last bits depend on the order.
func TestPlain(t *testing.T) {
	for seed := range some(96) {
		r := rand.New(rand.NewPCG(seed, 1))
		text := randomRequest(r)
		p, err := planned(form(text))
		require.NoError(t, err, text)
		series := randomSeries(r, p.Start, p.End, p.Grouping == nil)
		st := store(t, series)
		want := plain(p, series)
		got, err := New(Options{Workers: 1 + r.IntN(4)}).Run(t.Context(), st, p)
		require.NoError(t, err, text)
		compareRows(t, p, want, rows(got), fmt.Sprintf("seed %d: %s", seed, text))
	}
}

// TestEveryAggregate is TestPlain of each aggregate alone, by its name.
func TestEveryAggregate(t *testing.T) {
	for _, name := range (aggregate.Library{}).Names() {
		t.Run(name, func(t *testing.T) {
			for seed := range some(9) {
				r := rand.New(rand.NewPCG(seed, 4))
				text := strings.Replace(randomRequest(r), everyAggregate, name+",rate:"+name, 1)
				p, err := planned(form(text))
				require.NoError(t, err, text)
				series := randomSeries(r, p.Start, p.End, p.Grouping == nil)
				st := store(t, series)
				want := plain(p, series)
				got, err := New(Options{Workers: 2}).Run(t.Context(), st, p)
				require.NoError(t, err, text)
				compareRows(t, p, want, rows(got), fmt.Sprintf("seed %d: %s", seed, text))
			}
		})
	}
}

func compareRows(t *testing.T, p *Plan, want, got map[string][][]point, about string) {
	require.Equal(t, len(want), len(got), about)
	for name, rows := range want {
		for a, row := range rows {
			of := p.Aggregates[a]
			about := fmt.Sprintf("%s\n%s of %s", about, of.Text, name)
			require.Equal(t, len(row), len(got[name][a]), about)
			within := 0.0
			switch {
			case of.Name == "std" || of.Name == "var" || of.Name == "time_weighted_mean" || p.Grouping != nil && (of.Name == "sum" || of.Name == "mean"):
				within = 1e-9
			}
			if p.Reaggregate != nil {
				within = 1e-7 // of a variance of nearly equal sums
			}
			for i, x := range row {
				g := got[name][a][i]
				if math.IsInf(x.v, 0) || math.Abs(x.v) > 1e300 {
					continue // sums of the largest numbers may overflow in one order and not in another
				}
				require.Equal(t, x.bucket, g.bucket, about)
				require.True(t, alike(x.v, g.v, within), "%s\nbucket %d: %v is not %v", about, x.bucket, g.v, x.v)
			}
		}
	}
}

// TestAnyNumberOfCores: the same bits with any number of workers.
func TestAnyNumberOfCores(t *testing.T) {
	for seed := range some(40) {
		r := rand.New(rand.NewPCG(seed, 2))
		text := randomRequest(r)
		p, err := planned(form(text))
		require.NoError(t, err, text)
		var series []samples
		for k := range 8 {
			for _, s := range randomSeries(r, p.Start, p.End, true) {
				s.labels = labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%d-%s", k, s.labels.Get("i")), "job", s.labels.Get("job"))
				series = append(series, s)
			}
		}
		st := store(t, series)
		var want map[string][][]point
		for _, workers := range []int{1, 2, 7} {
			got, err := New(Options{Workers: workers}).Run(context.Background(), st, p)
			require.NoError(t, err)
			if workers == 1 {
				want = rows(got)
				continue
			}
			for name, all := range rows(got) {
				for a := range all {
					require.Equal(t, len(want[name][a]), len(all[a]))
					for i := range all[a] {
						require.Equal(t, math.Float64bits(want[name][a][i].v), math.Float64bits(all[a][i].v), "seed %d, %d workers: %s", seed, workers, text)
					}
				}
			}
		}
	}
}

// randomSeries are series with gaps, samples that repeat, are stale, NaN or infinite.
// With huge some are so large that the order in which they are added up shows.
func randomSeries(r *rand.Rand, start, end int64, huge bool) (all []samples) {
	kinds := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Float64frombits(value.StaleNaN), math.Copysign(0, -1)}
	if huge {
		kinds = append(kinds, math.MaxFloat64, -math.MaxFloat64)
	}
	odd := []float64{0, 0, 0.02, 0.3}[r.IntN(4)]
	for i := range 1 + r.IntN(12) {
		s := samples{labels: labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%02d", i), "job", fmt.Sprint(r.IntN(3)))}
		step := max(1, (end-start)/(1+r.Int64N(400)))
		scale := math.Pow(10, float64(r.IntN(8)))
		total := 0.0
		for t := start - (end-start)/5 + r.Int64N(step); t < end+(end-start)/5; t += 1 + step/2 + r.Int64N(step) {
			if r.IntN(60) == 0 {
				t += step * r.Int64N(80)
			}
			v := 0.0
			switch i % 4 {
			case 0:
				v = r.NormFloat64() * scale
			case 1:
				total += float64(r.IntN(40))
				if r.IntN(50) == 0 {
					total = 0
				}
				v = total
			case 2:
				v = float64(r.IntN(4))
			case 3:
				v = 1e9 + r.Float64()
			}
			if r.Float64() < odd {
				v = kinds[r.IntN(len(kinds))]
			}
			s.ts, s.vs = append(s.ts, t), append(s.vs, v)
		}
		all = append(all, s)
	}
	return all
}

// everyAggregate is all aggregates, of samples and of differences between them.
var everyAggregate = func() string {
	names := aggregate.Library{}.Names()
	return strings.Join(names, ",") + ",0pct,99.9pct,rate:" + strings.Join(names, ",rate:")
}()

var (
	groupings    = []string{"", "", "&by=job", "&without=i", "&by=", "&by=job&reaggregate=sum", "&reaggregate=median", "&reaggregate=mean&by=job", "&reaggregate=std", "&reaggregate=max&without=job"}
	fillingForms = []string{"", "", "&fill=null", "&fill=prev", "&fill=linear", "&fill=-1.5"}
	layoutForms  = []string{"every=1m", "every=7s", "every=5m&closed=right", "every=1m&period=150s", "every=1m&period=150s&closed=right", "every=1m&period=20s&label=right", "every=90s&offset=13s&origin=1111.5",
		"every=1d&timezone=Europe/Berlin", "every=1d&timezone=America/Havana&closed=right", "every=1w", "every=1M&timezone=Australia/Lord_Howe", "every=1d&period=1w&timezone=Europe/Berlin", "every=1M&period=1w", "every=1y"}
)

// randomRequest is a form over a time that buckets are found in: around a change of clocks, a leap
// day, or any.
func randomRequest(r *rand.Rand) string {
	layout := layoutForms[r.IntN(len(layoutForms))]
	f := fmt.Sprintf("metric=m&%s&aggregates=%s", layout, everyAggregate)
	around := []int64{1_774_746_000, 1_793_494_800, 1_709_164_800, 1_700_000_000 + r.Int64N(1e7)}[r.IntN(4)]
	length := map[byte]int64{'s': 60, 'm': 300, 'd': 86400, 'w': 7 * 86400, 'M': 31 * 86400, 'y': 366 * 86400}
	unit := byte('s')
	for i := len("every="); i < len(layout) && layout[i] != '&'; i++ {
		unit = layout[i]
	}
	buckets := 1 + r.Int64N(20)
	start := around - buckets*length[unit] + r.Int64N(length[unit])
	return f + fmt.Sprintf("&start=%d&end=%d", start, around+length[unit]*(1+buckets)) + groupings[r.IntN(len(groupings))] + fillingForms[r.IntN(len(fillingForms))]
}

// check parses and plans a form: what is wrong is an *Error that is not long, and what is not has a
// grid.
func check(t *testing.T, f url.Values) {
	var wrong *Error
	r, err := Parse(f, now, known)
	if err == nil {
		require.NotEmpty(t, r.Selectors)
		require.NotEmpty(t, r.Aggregates)
		require.Less(t, r.Start, r.End)
		var p *Plan
		if p, err = NewPlan(r); err == nil {
			require.NotZero(t, p.Grid.N())
			require.LessOrEqual(t, p.from, p.Grid.Starts[0])
			require.LessOrEqual(t, p.Grid.Starts[0], p.Grid.Ends[p.Grid.N()-1])
			return
		}
	}
	require.True(t, errors.As(err, &wrong), err)
	require.NotEmpty(t, wrong.Code)
	longest := 0
	for name, values := range f {
		for _, v := range values {
			longest = max(longest, len(name), len(v))
		}
	}
	require.Less(t, len(err.Error()), 2000+8*longest, err)
}

// quick reports whether a form may be planned within the time of a fuzzer: with fewer buckets than
// a request may have.
func quick(f url.Values) bool {
	return !strings.Contains(f.Get("every"), "ms") && f.Get("every") != "1"
}

// FuzzForm parses any form.
func FuzzForm(f *testing.F) {
	for _, layout := range layoutForms {
		f.Add("metric=m&start=-1y&aggregates=" + everyAggregate + "&" + layout)
	}
	f.Add("match[]={a=~\"b.*\"}&start=now-1M&end=now&every=1d&timezone=Pacific/Apia&reaggregate=median&without=a,b&fill=-1e300")
	f.Add("metric=m&start=0001-01-01T00:00:00Z&end=9999-12-31T00:00:00Z&every=1000y&origin=-1e10&offset=-999y&aggregates=0pct,100pct")
	f.Add("metric=m&start=1e9&end=253402300799&every=1e10&period=3e10&closed=right&label=right&aggregates=twa,nunique")
	f.Fuzz(func(t *testing.T, text string) {
		if form, err := url.ParseQuery(text); err == nil && quick(form) {
			check(t, form)
		}
	})
}

// TestRelativeTimes: what times mean, in a zone where a day had 23 hours.
func TestRelativeTimes(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	now := time.Date(2026, 3, 30, 12, 0, 0, 0, zone)
	for text, want := range map[string]time.Time{
		"now": now, "-1d": now.Add(-24 * time.Hour), "now-2d": now.Add(-47 * time.Hour), "-24h": now.Add(-24 * time.Hour), "-1M": time.Date(2026, 2, 28, 12, 0, 0, 0, zone),
		"-90s": now.Add(-90 * time.Second), "-5": time.Unix(-5, 0), "1e9": time.Unix(1e9, 0), "2026-03-01T00:00:00+01:00": time.Date(2026, 3, 1, 0, 0, 0, 0, zone), "1.0015": time.UnixMilli(1002),
	} {
		p := &parsing{now: now}
		p.r.Layout.Zone = zone
		got, err := p.time(text)
		require.NoError(t, err, text)
		require.Equal(t, want.UnixMilli(), got, text)
	}
}

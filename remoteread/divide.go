package remoteread

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"

	"github.com/promwarp/promwarp/remoteread/answer"
	"github.com/promwarp/promwarp/selection"
)

// A store answers a request on one core, and nearly all it does for few samples it does
// for each series. So a fetch that is likely to bring many series is divided by the
// values of a label into requests of about as many series each:
//
//	{instance=~"a|b"}, {instance=~"c|d"}, {instance!~"a|b|c|d"}
//
// Whatever the series are by now, each matches exactly one of them.

const (
	// partSeries is the fewest series that are likely in a part. A Prometheus takes 4 to
	// 7 us for each, and less than 0.5 ms for a further request.
	partSeries = 800
	// maxParts is the most parts of a fetch. By default a client may always have as many in
	// flight.
	maxParts = leastConcurrency
	// maxDivideBytes is the most bytes of the values in the requests of a fetch.
	maxDivideBytes = 16 << 10
	// maxDivideValues is the most values of a label that a fetch is divided by.
	maxDivideValues = 256
	// divideSample is of how many series about the labels are looked at, where there are
	// more.
	divideSample = 2048
)

// targetLabels say together what was scraped, in each Prometheus. A fetch is divided by
// one of them if that is possible, so that what came with one scrape comes with one
// answer.
var targetLabels = []string{"instance", "job"}

// division is how fetches of a selector are divided: the regular expressions that match
// the values of a label in all parts but the last.
type division struct {
	label  string
	values []string
}

// matchers returns ms with those of each part.
func (d division) matchers(ms []*prompb.LabelMatcher) [][]*prompb.LabelMatcher {
	if len(d.values) == 0 {
		return [][]*prompb.LabelMatcher{ms}
	}
	var out [][]*prompb.LabelMatcher
	for _, v := range d.values {
		out = append(out, answer.With(ms, prompb.LabelMatcher_RE, d.label, v))
	}
	return append(out, answer.With(ms, prompb.LabelMatcher_NRE, d.label, strings.Join(d.values, "|")))
}

// divide returns how to divide a fetch that is likely to bring the given series.
func divide(series []labels.Labels) division {
	n := min(len(series)/partSeries, maxParts)
	if n < 2 {
		return division{}
	}
	counts := map[string]map[string]int{}
	looked := 0
	// Steps of one length might meet the same values of a label again and again.
	steps := rand.New(rand.NewPCG(1, 2))
	apart := max(1, len(series)/divideSample)
	for i := 0; i < len(series); i += 1 + steps.IntN(2*apart-1) {
		looked++
		series[i].Range(func(l labels.Label) {
			if counts[l.Name] == nil {
				counts[l.Name] = map[string]int{}
			}
			counts[l.Name][l.Value]++
		})
	}
	// Those of few values make the shortest requests.
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(
			cmp.Compare(rank(a), rank(b)),
			cmp.Compare(len(counts[a]), len(counts[b])),
			cmp.Compare(a, b),
		)
	})
	for _, name := range names {
		if values := partition(counts[name], looked, n); values != nil {
			return division{name, values}
		}
	}
	return division{}
}

// rank is less for labels to be preferred.
func rank(name string) int {
	if i := slices.Index(targetLabels, name); i >= 0 {
		return i
	}
	return len(targetLabels)
}

// partition divides values that occur as often as counted, all times together, into n
// parts that occur about as often, and returns regular expressions for all but the
// last; or nil if there is no such division. What has no value is of the last part.
func partition(counts map[string]int, all, n int) []string {
	if len(counts) < n || len(counts) > maxDivideValues {
		return nil
	}
	values := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	parts, loads := make([][]string, n), make([]int, n)
	loads[n-1] = all
	for _, c := range counts {
		loads[n-1] -= c
	}
	for _, v := range values {
		least := 0
		for i := range loads {
			if loads[i] < loads[least] {
				least = i
			}
		}
		parts[least] = append(parts[least], regexp.QuoteMeta(v))
		loads[least] += counts[v]
	}
	// A part of half as much again takes as long as one fewer part would.
	if slices.Max(loads)*2*n > all*3 {
		return nil
	}
	var out []string
	size := 0
	for _, p := range parts[:n-1] {
		out = append(out, strings.Join(p, "|"))
		size += 2 * len(out[len(out)-1])
	}
	if size > maxDivideBytes {
		return nil
	}
	return out
}

// division returns how to divide a fetch by ms.
func (c *Client) division(e selection.Expectation, ms []*prompb.LabelMatcher) division {
	if e.Ahead || len(e.Series) < 2*partSeries {
		return division{}
	}
	key := selectorKey(ms)
	d, ok := c.divisions.get(key)
	if !ok {
		d = divide(e.Series)
		c.divisions.add(key, d)
	}
	return d
}

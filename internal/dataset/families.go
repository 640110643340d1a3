package dataset

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// familyLine is a line of Options.Families: a kind, a name, a level, and labels with their values and
// the shares of these, as in
//
//	counter requests_total 20 instance=app-{}:80 code=200*0.9|500*0.1
var familyLine = regexp.MustCompile(`^\s*(counter|gauge|fixed)\s+\S+\s+[\d.e]+(\s+\w+=[^\s|*]+(\*[\d.e]+)?(\|[^\s|*]+(\*[\d.e]+)?)*)*\s*$`)

// remainder is {n} in a line of Options.Families, for the number of an instance modulo n.
var remainder = regexp.MustCompile(`\{(\d+)\}`)

// newFamilies returns the target of an instance that exposes Options.Families.
func newFamilies(o Options, i int) []*target {
	r := newRNG(o.Seed, "families", i)
	t := &target{scraper: newScraper(o, &r, i, o.Interval.Milliseconds())}
	t.resets = true
	for _, line := range o.Families {
		first := math.MaxInt
		text := remainder.ReplaceAllStringFunc(line, func(s string) string {
			n, _ := strconv.Atoi(strings.Trim(s, "{}"))
			first = min(first, n)
			return strconv.Itoa(i % max(1, n))
		})
		if i >= first && !strings.Contains(text, "{}") {
			continue // an earlier instance exposes the same series
		}
		words := strings.Fields(strings.ReplaceAll(text, "{}", strconv.Itoa(i)))
		level, _ := strconv.ParseFloat(words[2], 64)
		t.expose(o.Seed, words[0], labels.FromStrings(model.MetricNameLabel, words[1]), words[3:], level)
	}
	return []*target{t}
}

// expose adds a series for each combination of the values of labels to l.
func (t *target) expose(seed uint64, kind string, l labels.Labels, more []string, level float64) {
	if len(more) == 0 {
		t.exposes = append(t.exposes, familySeries(seed, kind, l, level))
		return
	}
	name, values, _ := strings.Cut(more[0], "=")
	for value := range strings.SplitSeq(values, "|") {
		text, share, _ := strings.Cut(value, "*")
		part := level
		if times, err := strconv.ParseFloat(share, 64); err == nil {
			part *= times
		}
		t.expose(seed, kind, labels.NewBuilder(l).Set(name, text).Labels(), more[1:], part)
	}
}

// familySeries is a series around a level. Buckets of a histogram grow alike.
func familySeries(seed uint64, kind string, l labels.Labels, level float64) exposed {
	r := rng(seed + labels.NewBuilder(l).Del(labels.BucketLabel).Labels().Hash())
	around := level * r.spread(0.5, 2)
	switch kind {
	case "counter":
		return counter(l, r, around, 3, 0)
	case "gauge":
		return metric(l, nil, func(s scrape) float64 { return math.Round(around*s.load*(0.9+0.2*r.float())*1e4) / 1e4 })
	}
	return metric(l, nil, func(scrape) float64 { return level })
}

package dataset

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// seriesOf returns the series of a line of Options.Families that instance i exposes, with the kind and
// the level of each:
//
//	counter requests_total 20 instance=app-{}:80 code=200*0.9|500*0.1
func seriesOf(line string, i int) (kind string, all []labels.Labels, levels []float64, err error) {
	words := strings.Fields(line)
	if len(words) < 3 {
		return "", nil, nil, fmt.Errorf("%q is not a kind, a name, a level and labels", line)
	}
	level, err := strconv.ParseFloat(words[2], 64)
	all, levels = []labels.Labels{labels.FromStrings(model.MetricNameLabel, words[1])}, []float64{level}
	for _, word := range words[3:] {
		var wider []labels.Labels
		var shared []float64
		name, values, _ := strings.Cut(word, "=")
		for value := range strings.SplitSeq(values, "|") {
			text, times, _ := strings.Cut(value, "*")
			share := 1.0
			if times != "" && err == nil {
				share, err = strconv.ParseFloat(times, 64)
			}
			for k, l := range all {
				b := labels.NewBuilder(l).Set(name, strings.ReplaceAll(text, "{}", strconv.Itoa(i)))
				wider, shared = append(wider, b.Labels()), append(shared, levels[k]*share)
			}
		}
		all, levels = wider, shared
	}
	if err != nil {
		err = fmt.Errorf("%q: %w", line, err)
	}
	return words[0], all, levels, err
}

// newFamilies returns the target of an instance that exposes Options.Families, whose lines are right.
func newFamilies(o Options, i int) []*target {
	r := newRNG(o.Seed, "families", i)
	t := &target{scraper: newScraper(o, &r, i, o.Interval.Milliseconds())}
	t.resets = true
	for _, line := range o.Families {
		kind, all, levels, _ := seriesOf(line, i)
		for k, l := range all {
			r := rng(o.Seed + labels.NewBuilder(l).Del(labels.BucketLabel).Labels().Hash()) // buckets of a histogram grow alike
			level, unit := levels[k], 1.0                                                   // what values are multiples of
			if level < 100 {
				unit = 1e-4
			}
			switch spread := level * r.spread(0.5, 2); kind {
			case "counter":
				t.exposes = append(t.exposes, counter(l, r, spread, 3, 0))
			case "gauge":
				t.exposes = append(t.exposes, metric(l, nil, func(s scrape) float64 {
					return math.Round(spread*s.load*(0.9+0.2*r.float())/unit) * unit
				}))
			default:
				t.exposes = append(t.exposes, metric(l, nil, func(scrape) float64 { return level }))
			}
		}
	}
	return []*target{t}
}

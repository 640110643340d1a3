package stores

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/internal/leafpb"
	"github.com/promwarp/promwarp/selection/replicas"
)

// Of a block of lower resolution a store has aggregates of the samples of each 5 min or hour. Which of them
// is read depends on the function that reads it, as in a Querier. A selector says it by a matcher that the
// store is not sent, so that what is cached of it is apart for each aggregate and resolution.

// AggregateLabel is the matcher's label, which no series has. Values are such as counter/1h, and raw.
const AggregateLabel = "__aggregate__"

// Resolutions are those of blocks besides raw samples, the finest first.
var Resolutions = []time.Duration{5 * time.Minute, time.Hour}

const rawSamples = "raw"

var aggregates = map[string][]leafpb.Aggr{
	rawSamples: {leafpb.Aggr_RAW},
	"avg":      {leafpb.Aggr_COUNT, leafpb.Aggr_SUM},
	"count":    {leafpb.Aggr_COUNT},
	"sum":      {leafpb.Aggr_SUM},
	"min":      {leafpb.Aggr_MIN},
	"max":      {leafpb.Aggr_MAX},
	"counter":  {leafpb.Aggr_COUNTER},
}

// slopes are the functions that need two samples in a range.
var slopes = []string{"rate", "irate", "increase", "delta", "idelta", "deriv", "predict_linear", "double_exponential_smoothing"}

// Aggregate is the matcher for what function reads of samples of a resolution, or a higher one: a Querier
// chooses the same. A range that is too short for two samples of a resolution is read at a higher one.
func Aggregate(function string, window, resolution time.Duration) *labels.Matcher {
	if window > 0 && slices.Contains(slopes, function) {
		resolution = min(resolution, window/2)
	}
	value := rawSamples
	for _, r := range Resolutions {
		if r <= resolution {
			value = aggregateOf(function) + "/" + model.Duration(r).String()
		}
	}
	return labels.MustNewMatcher(labels.MatchEqual, AggregateLabel, value)
}

func aggregateOf(function string) string {
	first, _, over := strings.Cut(function, "_")
	switch {
	case replicas.Counting(function):
		return "counter"
	case first == "min" || first == "max" || first == "count" || first == "sum" && over:
		return first
	}
	return "avg"
}

// parseAggregate reads the value of such a matcher. What is none is of raw samples.
func parseAggregate(value string) (of []leafpb.Aggr, resolution time.Duration) {
	name, text, _ := strings.Cut(value, "/")
	d, _ := model.ParseDuration(text)
	if of = aggregates[name]; of == nil || d == 0 {
		return aggregates[rawSamples], 0
	}
	return of, time.Duration(d)
}

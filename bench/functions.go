package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/queries"
	"github.com/promwarp/promwarp/bench/report"
	"github.com/promwarp/promwarp/internal/dataset"
)

// functions asks for every function, operator and aggregation of PromQL over each kind of gauge. Where
// -only has it, Prometheus is asked, too, once, and promwarp's answers must be its.
func functions(ctx context.Context, r *rig) error {
	reference := r.asks(peers.Prometheus)
	cs, err := r.peers(ctx, 0, reference)
	if err != nil {
		return err
	}
	cs[0].exact = reference
	for i := range cs {
		cs[i].once = cs[i].server == r.source
	}
	r.shown.Worst = true
	r.shown.Compare(report.VictoriaMetrics, peers.Promwarp, "VM ×")
	return r.ask(ctx, r.questions(functionQueries()...), cs)
}

// functionShapes are how windows lie: where the step is 0, there is one, at the end of the samples.
var functionShapes = []struct {
	name, window string
	step         time.Duration
}{
	{"5m", "5m", time.Minute},
	{"1h", "1h", time.Hour},
	{"instant 6h", "6h", 0},
	{"instant 1d", "1d", 0},
}

// functionQueries are all queries, of each kind of gauge.
func functionQueries() (all []queries.Query) {
	for _, f := range functionTexts() {
		for _, shape := range functionShapes {
			if !strings.Contains(f.text, "$w") && shape != functionShapes[0] {
				continue // it has no windows
			}
			for _, prefix := range []string{"gauge_", "late_gauge_"} {
				for _, kind := range dataset.GaugeKinds {
					if prefix != "gauge_" && kind != "bits" && !strings.Contains(f.text, "$w") {
						continue // of late samples only the times matter
					}
					q := queries.Query{
						Name: report.WorstName(f.name, shape.name, strings.TrimSuffix(prefix, "gauge_")+kind),
						Expr: strings.NewReplacer("$w", shape.window, "$g", prefix+kind).Replace(f.text), Range: 24 * time.Hour, Step: shape.step,
					}
					if shape.step == 0 {
						q.Range, q.Step = 0, time.Minute
					}
					all = append(all, q)
				}
			}
		}
	}
	return all
}

// functionText is a query over gauges $g in windows of $w.
type functionText struct{ name, text string }

// functionTexts has one query or more of everything that Prometheus's parser knows, but for what is
// experimental or of native histograms, and of answers with many series.
func functionTexts() (all []functionText) {
	for _, name := range report.SortedKeys(parser.Functions) {
		if f := parser.Functions[name]; !f.Experimental && !strings.HasPrefix(name, "histogram_") {
			all = append(all, functionText{name, functionCall(f)})
		}
	}
	none := []parser.ItemType{parser.EQL_REGEX, parser.NEQ_REGEX, parser.AT, parser.TRIM_UPPER, parser.TRIM_LOWER}
	for _, operator := range slices.Sorted(maps.Keys(parser.ItemTypeStr)) {
		name := operator.String()
		switch {
		case operator.IsExperimentalAggregator():
		case operator == parser.COUNT_VALUES:
			all = append(all, functionText{name, `count_values by (job) ("v", round($g / 1e8))`})
		case operator.IsAggregatorWithParam():
			all = append(all, functionText{name, name + " by (job) (0.9, $g)"})
			if operator != parser.QUANTILE {
				all[len(all)-1].text = name + " by (job) (5, $g)"
			}
		case operator.IsAggregator():
			all = append(all, functionText{name, name + " by (job) ($g)"})
		case operator.IsSetOperator():
			all = append(all, functionText{name, "sum by (job) ($g " + name + ` $g{le="1"})`})
		case operator == parser.POW:
			all = append(all, functionText{"^ 2", "sum by (job) ($g ^ 2)"})
		case operator.IsOperator() && !slices.Contains(none, operator):
			all = append(all, functionText{name + " 1000", "sum by (job) ($g " + name + " 1000)"},
				functionText{name + " of two", "sum by (job) ($g " + name + " $g)"})
		}
	}
	return append(all,
		functionText{"absent of none", "absent(none)"},
		functionText{"unary -", "sum by (job) (-$g)"},
		functionText{"> bool 1000", "sum by (job) ($g > bool 1000)"},
		functionText{"group_left", "sum by (job) ($g * on (instance) group_left () sum by (instance) ($g))"},
		functionText{"offset", "sum by (job) ($g offset 1h)"},
		functionText{"subquery", "sum by (job) (max_over_time($g[$w:1m]))"},
		functionText{"rows of min_over_time", `min_over_time($g{job="job-1"}[$w])`},
		functionText{"rows of max", "max without (le) ($g)"},
		functionText{"rows of sum", "sum by (instance) ($g) / 5"},
		functionText{"rows of histogram_quantile", "histogram_quantile(0.9, sum by (instance, le) ($g))"},
		functionText{"rows of sort_desc", "sort_desc($g)"},
		functionText{"rows of gauges", "$g"})
}

// functionCall is a sum of the results of a function, by job where it keeps that.
func functionCall(f *parser.Function) string {
	var arguments []string
	for i, t := range f.ArgTypes {
		argument := map[parser.ValueType]string{
			parser.ValueTypeMatrix: "$g[$w]", parser.ValueTypeVector: "$g", parser.ValueTypeScalar: "0.9", parser.ValueTypeString: `"job"`,
		}[t]
		if i == 0 || i < len(f.ArgTypes)-1 || f.Variadic == 0 || t == parser.ValueTypeString { // the last one may be left out
			arguments = append(arguments, argument)
		}
	}
	call := fmt.Sprintf("%s(%s)", f.Name, strings.Join(arguments, ", "))
	if f.ReturnType != parser.ValueTypeVector {
		return call
	}
	return "sum by (job) (" + call + ")"
}

package cpuexec

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/prometheus/common/model"

	"github.com/promwarp/promwarp/plan"
)

// rememberable is an aggregation over a window whose values at a step depend on
// nothing but the samples that the step reads.
type rememberable struct {
	window  *plan.Window
	maps    chain
	form    string // everything that its values depend on besides samples and time
	buckets bool   // its rows are the buckets of histograms
}

// findRememberable collects the aggregations at and below n whose results may be
// remembered. Which series of a group was the first to have a value, by which
// Prometheus's engine orders groups, is not remembered, so above them there must
// be only what does not depend on the order of its input.
func findRememberable(n plan.Node, into map[*plan.Aggregate]rememberable) {
	switch n := n.(type) {
	case *plan.Aggregate:
		if leaf, ok := rememberableOf(n); ok {
			into[n] = leaf
		}
		return
	case *plan.Histogram:
		// The counts of several buckets with the same bound are added up in their order.
		bottom, above := underChain(n.Input)
		if a, ok := bottom.(*plan.Aggregate); ok && mapsOnly(above) {
			if leaf, ok := rememberableOf(a); ok {
				leaf.buckets = true
				into[a] = leaf
			}
		}
		return
	case *plan.Map, *plan.Relabel, *plan.Sort, *plan.Binary, *plan.Set, *plan.StepMap,
		*plan.Scalar, *plan.ScalarOp, *plan.Vector, *plan.Absent, *plan.Subwindow:
		for _, in := range n.Inputs() {
			findRememberable(in, into)
		}
	}
}

func mapsOnly(c chain) bool {
	for _, n := range c {
		if _, ok := n.(*plan.Map); !ok {
			return false
		}
	}
	return true
}

// rememberableOf reports whether the results of n may be remembered.
func rememberableOf(n *plan.Aggregate) (rememberable, bool) {
	switch {
	case n.Func.Adds(), n.Func.Name == "quantile", n.Func.Name == "topk", n.Func.Name == "bottomk":
	default:
		return rememberable{}, false
	}
	bottom, above := underChain(n.Input)
	w, ok := bottom.(*plan.Window)
	// The last bits of functions that are not exact depend on how much else is
	// evaluated.
	if !ok || w.Func.Exactness != plan.BitIdentical || w.Scan.Fixed != nil || !mapsOnly(above) {
		return rememberable{}, false
	}
	return rememberable{window: w, maps: above, form: formOf(n, above, w)}, true
}

// formOf encodes everything that the values of an aggregation depend on besides its
// selector, its steps and its samples. Different ones have different forms.
func formOf(n *plan.Aggregate, above chain, w *plan.Window) string {
	var f form
	f.text(n.Func.Name)
	f.text(strconv.FormatBool(n.Without))
	f.int(int64(len(n.Grouping)))
	for _, l := range n.Grouping {
		f.text(l)
	}
	f.number(n.Param)
	f.int(int64(len(above)))
	for _, node := range above {
		m := node.(*plan.Map)
		f.text(m.Func.Name)
		f.int(int64(len(m.Args)))
		for _, arg := range m.Args {
			f.number(arg)
		}
		f.text(strconv.FormatBool(m.Swap))
		f.text(strconv.FormatBool(m.Bool))
	}
	f.text(w.Func.Name)
	f.int(w.Width)
	f.int(w.Scan.Offset)
	f.number(w.Param)
	f.number(w.Trend)
	return string(f.b)
}

// form is a list of things, encoded so that no two lists look alike.
type form struct{ b []byte }

func (f *form) int(n int64)      { f.b = binary.AppendVarint(f.b, n) }
func (f *form) number(v float64) { f.b = binary.BigEndian.AppendUint64(f.b, math.Float64bits(v)) }

func (f *form) text(s string) {
	f.int(int64(len(s)))
	f.b = append(f.b, s...)
}

// boundsDiffer reports whether no two rows' upper bounds of buckets are written
// differently and are the same, or are no numbers to sort by.
func boundsDiffer(rows []plan.Row) bool {
	texts, bounds := map[string]bool{}, map[float64]bool{}
	for i := range rows {
		le := rows[i].Labels.Get(model.BucketLabel)
		if texts[le] {
			continue
		}
		texts[le] = true
		v, err := strconv.ParseFloat(le, 64)
		if err != nil {
			continue // is no bucket
		}
		if v != v || bounds[v] {
			return false
		}
		bounds[v] = true
	}
	return true
}

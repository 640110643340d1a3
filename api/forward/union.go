package forward

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
)

// unite returns the union of what several servers answered at path.
func unite(path string, data []json.RawMessage) (any, error) {
	values := make([]any, len(data))
	for i, d := range data {
		dec := json.NewDecoder(bytes.NewReader(d))
		dec.UseNumber()
		if err := dec.Decode(&values[i]); err != nil {
			return nil, err
		}
	}
	all := values[0]
	for _, v := range values[1:] {
		all = union(all, v)
	}
	if list, ok := all.([]any); ok && (strings.HasSuffix(path, "/labels") || strings.HasSuffix(path, "/values") || strings.HasSuffix(path, "/series")) {
		slices.SortFunc(list, func(a, b any) int { // names and values, and label sets, in Prometheus's order
			if x, ok := a.(string); ok {
				y, _ := b.(string)
				return strings.Compare(x, y)
			}
			return labels.Compare(labelsOf(a), labelsOf(b))
		})
	}
	return all, nil
}

// union returns the union of two JSON values: of lists, those elements of the second
// too that the first has not; of objects, the union by key; of counts, the sum; of
// anything else the first.
func union(a, b any) any {
	switch x := a.(type) {
	case nil:
		return b
	case []any:
		y, _ := b.([]any)
		has := make(map[string]bool, len(x))
		for _, v := range x {
			has[text(v)] = true
		}
		for _, v := range y {
			if !has[text(v)] {
				x = append(x, v)
			}
		}
		return x
	case map[string]any:
		y, _ := b.(map[string]any)
		for k, v := range y {
			x[k] = union(x[k], v)
		}
		return x
	case json.Number:
		y, _ := b.(json.Number)
		m, _ := y.Int64()
		if n, err := x.Int64(); err == nil {
			return json.Number(strconv.FormatInt(n+m, 10))
		}
	}
	return a
}

// text is a value as JSON, which is the same for equal values.
func text(v any) string {
	b, _ := json.Marshal(v) // it was read from JSON
	return string(b)
}

func labelsOf(v any) labels.Labels {
	set, _ := v.(map[string]any)
	m := make(map[string]string, len(set))
	for k, v := range set {
		m[k], _ = v.(string)
	}
	return labels.FromMap(m)
}

package forward

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/internal/parallel"
)

// union unites what several servers answered, as long as its context lasts.
type union struct{ parallel.Watch }

// unite returns the union of what several servers answered at path.
func unite(ctx context.Context, path string, data []json.RawMessage) (all any, err error) {
	u := union{parallel.Watch{Ctx: ctx}}
	defer u.Leave()
	for _, d := range data {
		v, err := u.decode(d)
		if err != nil {
			return nil, err
		}
		all = u.of(all, v)
	}
	if list, ok := all.([]any); ok && (strings.HasSuffix(path, "/labels") || strings.HasSuffix(path, "/values") || strings.HasSuffix(path, "/series")) {
		all = u.sorted(list)
	}
	return all, u.Now()
}

// decode decodes a JSON value, a list by its elements.
func (u *union) decode(data json.RawMessage) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if !bytes.HasPrefix(data, []byte("[")) {
		err = dec.Decode(&v)
		return v, err
	}
	list := []any{}
	for _, err = dec.Token(); err == nil && dec.More(); err = cmp.Or(err, u.Err()) {
		err = dec.Decode(&v)
		list, v = append(list, v), nil
	}
	return list, err
}

// sorted returns names and values, or label sets, in Prometheus's order.
func (u *union) sorted(list []any) []any {
	type element struct {
		labels labels.Labels
		value  any
	}
	all := make([]element, 0, len(list))
	for _, v := range list {
		if u.Err() == nil {
			all = append(all, element{labelsOf(v), v})
		}
	}
	slices.SortFunc(all, parallel.Comparing(&u.Watch, func(a, b element) int { return labels.Compare(a.labels, b.labels) }))
	for i := range all {
		list[i] = all[i].value
	}
	return list
}

// of returns the union of two JSON values: of lists, those elements of the second
// too that the first has not; of objects, the union by key; of counts, the sum; of
// anything else the first.
func (u *union) of(a, b any) any {
	switch x := a.(type) {
	case nil:
		return b
	case []any:
		y, _ := b.([]any)
		has := make(map[string]bool, len(x))
		for _, v := range x {
			if u.Err() == nil {
				has[text(v)] = true
			}
		}
		for _, v := range y {
			if u.Err() == nil && !has[text(v)] {
				x = append(x, v)
			}
		}
		return x
	case map[string]any:
		y, _ := b.(map[string]any)
		for k, v := range y {
			x[k] = u.of(x[k], v)
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

// labelsOf are the labels of a set. A name or a value is that of a label without a name.
func labelsOf(v any) labels.Labels {
	if name, ok := v.(string); ok {
		return labels.FromStrings("", name)
	}
	set, _ := v.(map[string]any)
	m := make(map[string]string, len(set))
	for k, v := range set {
		m[k], _ = v.(string)
	}
	return labels.FromMap(m)
}

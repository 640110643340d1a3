package workload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// element is what a dashboard of Grafana's second schema shows: a panel, or one of a library.
type element struct {
	Kind string `json:"kind"`
	Spec struct {
		Title string `json:"title"`
		Data  struct {
			Spec struct {
				Queries []panelQuery `json:"queries"`
			} `json:"spec"`
		} `json:"data"`
	} `json:"spec"`
}

// panelQuery is a query of such a panel.
type panelQuery struct {
	Spec struct {
		Hidden bool `json:"hidden"`
		Query  struct {
			Kind  string `json:"kind"`  // DataQuery; in the schema's first form the kind of data source
			Group string `json:"group"` // the kind of data source
			Spec  struct {
				Expr    string `json:"expr"`
				Instant bool   `json:"instant"`
			} `json:"spec"`
		} `json:"query"`
	} `json:"spec"`
}

// variableElement is a variable of such a dashboard.
type variableElement struct {
	Kind string   `json:"kind"` // such as QueryVariable
	Spec variable `json:"spec"`
}

// dataQuery is the kind of queries that say beside it what they are for.
const dataQuery = "DataQuery"

// classic puts what a dashboard of the second schema has where one of the first has it, and says
// what it leaves out. Panels are in the order in which the layout names them.
func (d *dashboard) classic() (notes []string) {
	for _, v := range d.Variables {
		of := v.Spec
		of.Type = strings.ToLower(strings.TrimSuffix(v.Kind, "Variable"))
		if of.Type == "text" {
			of.Type = "textbox"
		}
		d.Templating.List = append(d.Templating.List, of)
	}
	var layout any
	_ = json.Unmarshal(d.Layout, &layout) // without one the order of names does
	names := slices.Concat(elementsOf(layout), slices.Sorted(maps.Keys(d.Elements)))
	for i, name := range names {
		e, known := d.Elements[name]
		switch {
		case !known || slices.Contains(names[:i], name):
			continue
		case e.Kind == "LibraryPanel":
			notes = append(notes, fmt.Sprintf("left out: %q is a library's panel, whose queries are not in the file", e.Spec.Title))
			continue
		}
		p := panel{Title: e.Spec.Title}
		for _, q := range e.Spec.Data.Spec.Queries {
			source := q.Spec.Query.Group
			if q.Spec.Query.Kind != dataQuery && source == "" {
				source = q.Spec.Query.Kind
			}
			p.Targets = append(p.Targets, target{
				Expr: q.Spec.Query.Spec.Expr, Instant: q.Spec.Query.Spec.Instant, Hide: q.Spec.Hidden, source: source,
			})
		}
		d.Panels = append(d.Panels, p)
	}
	return notes
}

// elementsOf are the names of the elements that a layout refers to: below grids, rows and tabs, in
// their order.
func elementsOf(layout any) (names []string) {
	switch v := layout.(type) {
	case []any:
		for _, inner := range v {
			names = append(names, elementsOf(inner)...)
		}
	case map[string]any:
		if name, ok := v["name"].(string); ok && v["kind"] == "ElementReference" {
			return []string{name}
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			names = append(names, elementsOf(v[key])...)
		}
	}
	return names
}

// current is what a variable was saved with: an object with a value, or the value alone.
type current struct {
	Value json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *current) UnmarshalJSON(text []byte) error {
	if !bytes.HasPrefix(text, []byte("{")) {
		c.Value = bytes.Clone(text)
		return nil
	}
	var o struct {
		Value json.RawMessage `json:"value"`
	}
	err := json.Unmarshal(text, &o)
	c.Value = o.Value
	return err
}

package resampled

import (
	"encoding/csv"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/resample"
)

// buckets calls f for each bucket of a series that has a value of some aggregate, in order.
// at[k] is the place of the bucket in row k, or -1 where the row has none.
func buckets(s *resample.Series, f func(bucket int32, at []int) error) error {
	next, at := make([]int, len(s.Rows)), make([]int, len(s.Rows))
	for {
		bucket := int32(math.MaxInt32)
		for k, row := range s.Rows {
			if next[k] < len(row.Buckets) {
				bucket = min(bucket, row.Buckets[next[k]])
			}
		}
		if bucket == math.MaxInt32 {
			return nil
		}
		for k, row := range s.Rows {
			at[k] = -1
			if next[k] < len(row.Buckets) && row.Buckets[next[k]] == bucket {
				at[k] = next[k]
				next[k]++
			}
		}
		if err := f(bucket, at); err != nil {
			return err
		}
	}
}

// writeLines writes a line of JSON for each bucket of a series, with its labels, time and values,
// which are numbers but for NaN and infinities:
//
//	{"metric":{"job":"a"},"timestamp":1700000000,"values":{"count":3,"max":"+Inf","95pct":null}}
//
// Warnings are a line of their own, the last one.
func writeLines(w http.ResponseWriter, a *answer) error {
	o := newOut(w, "application/x-ndjson")
	defer o.Flush()
	for i := range a.Series {
		s := &a.Series[i]
		err := buckets(s, func(bucket int32, at []int) error {
			o.text(`{"metric":`)
			o.object(s.Labels)
			o.text(`,"timestamp":`)
			o.text(a.times[bucket])
			o.text(`,"values":{`)
			comma := ""
			for k, place := range at {
				if place < 0 {
					continue
				}
				o.text(comma)
				comma = ","
				o.quoted(a.Aggregates[k].Text)
				o.text(":")
				switch v := s.Rows[k].Values[place]; {
				case resample.IsNull(v):
					o.text("null")
				case v-v != 0: // NaN or infinite, which JSON has no numbers for
					o.text(`"`)
					o.number(v)
					o.text(`"`)
				default:
					o.number(v)
				}
			}
			_, err := o.WriteString("}}\n") // an error of before, too: the client has gone
			return err
		})
		if err != nil {
			return nil
		}
	}
	if len(a.warnings) > 0 {
		o.text(`{"warnings":`)
		o.json(a.warnings)
		o.text("}\n")
	}
	return nil
}

// writeTable writes CSV: a column for each label, then timestamp (seconds since the epoch), then a
// column for each aggregate; a line for each bucket of a series. Where there is no value the cell
// is empty. Warnings have no place in it.
func writeTable(w http.ResponseWriter, a *answer) error {
	if a.Explained {
		return &resample.Error{Code: resample.CodeConflict, Field: "explain", Text: "CSV has no place for an explanation", Hint: "use format=json, or /explain"}
	}
	seen := map[string]bool{}
	var names []string
	for i := range a.Series {
		a.Series[i].Labels.Range(func(l labels.Label) {
			if !seen[l.Name] {
				seen[l.Name] = true
				names = append(names, l.Name)
			}
		})
	}
	slices.Sort(names)
	head := append(slices.Clone(names), "timestamp")
	for _, of := range a.Aggregates {
		head = append(head, of.Text)
	}
	for _, column := range head[len(names):] {
		if seen[column] {
			return &resample.Error{Code: resample.CodeLabelClash, Text: "series have a label " + strconv.Quote(column) + ", which is a column of the table, too", Hint: "use format=ndjson, or leave the label out with without"}
		}
	}
	o := newOut(w, "text/csv")
	c := csv.NewWriter(o.Writer) // which uses that buffer
	defer c.Flush()
	if c.Write(head) != nil {
		return nil // the client has gone
	}
	cells := make([]string, len(head))
	for i := range a.Series {
		s := &a.Series[i]
		for k, name := range names {
			cells[k] = s.Labels.Get(name)
		}
		err := buckets(s, func(bucket int32, at []int) error {
			cells[len(names)] = a.times[bucket]
			for k, place := range at {
				cell := &cells[len(names)+1+k]
				*cell = ""
				if place >= 0 && !resample.IsNull(s.Rows[k].Values[place]) {
					*cell = strconv.FormatFloat(s.Rows[k].Values[place], 'f', -1, 64)
				}
			}
			return c.Write(cells)
		})
		if err != nil {
			return nil
		}
	}
	return nil
}

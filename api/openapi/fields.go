package openapi

import (
	"github.com/promwarp/promwarp/api/table"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/resample"
)

// field is a field of requests.
type field struct {
	text   string
	list   bool
	object bool     // it may be an object in JSON, which is a text elsewhere
	enum   []string // the only values there are; nothing where there are others
}

// schema is the schema of the field's values, of which JSON may have numbers and truth values.
func (f field) schema() object {
	value := object{"type": []string{"string", "number", "boolean"}}
	if f.object {
		value = object{"type": []string{"object", "string"}}
	}
	if f.enum != nil {
		value = object{"type": "string", "enum": f.enum}
	}
	if f.list {
		return object{"oneOf": []object{value, {"type": "array", "items": value}}}
	}
	return value
}

var (
	executor = field{text: "who computes; resample requests know auto, cpu and gpu", enum: []string{"auto", "cpu", "gpu", "prometheus"}}
	exact    = field{text: "bits: Prometheus's very bits, at the cost of long windows; 1e-12: five functions may differ by that, relative", enum: []string{string(plan.WithinTolerance), string(plan.Bits)}}
	strict   = field{text: "true: an error where the executor cannot compute it, in place of another executor"}
	analyze  = field{text: "true, of /explain: computes the request, and says what that took"}
	timeout  = field{text: "the longest that the request may take, its time in the queue included"}
	limit    = field{text: "the most series of the answer; a warning says that there are more"}
	format   = field{text: "form of the answer; without it the Accept header counts. /explain knows json, and text of PromQL", enum: formats()}
	layout   = field{text: "of Arrow and Parquet: long has a row for each time of a series, wide a column for each series", enum: []string{table.Long, table.Wide}}
	start    = field{text: "first time: seconds since the epoch, RFC 3339; of resample requests also now, -30d, now-30d"}
	end      = field{text: "last time; of resample requests it defaults to now"}
)

// promQL are the fields of PromQL's requests.
var promQL = map[string]field{
	"query": {text: "PromQL"}, "time": {text: "of an instant query; defaults to now"}, "start": start, "end": end,
	"step":           {text: "with start and end: seconds, or a duration such as 5m; makes it a range query"},
	"lookback_delta": {text: "how old samples may be; a duration"}, "stats": {text: "adds statistics to JSON"}, "exact": exact,
	"timeout": timeout, "limit": limit, "executor": executor, "strict": strict, "analyze": analyze, "format": format, "layout": layout,
}

// dropping are the fields of /api/v1/admin/cache/drop.
var dropping = map[string]field{
	"match[]": {text: "selectors whose series are forgotten", list: true}, "start": {text: "from when on"}, "end": {text: "up to when"},
	"all": {text: "true: everything", enum: []string{"true"}},
}

// texts say what the fields of resample requests mean.
var texts = map[string]field{
	"match[]": {text: "selectors, one or more"}, "metric": {text: "the metric's name, in place of a selector"},
	"timezone": {text: "whose calendar and clock buckets follow; defaults to UTC"}, "start": start, "end": end,
	"every":  {text: "length of a bucket: a duration or seconds, or days, weeks, months, quarters, years of the calendar"},
	"period": {text: "length of the window that a bucket's samples are from; defaults to every"},
	"origin": {text: "when a bucket begins: a time, start, or epoch (the default)"}, "offset": {text: "buckets begin so much later"},
	"closed":     {text: "which end of a bucket belongs to it; defaults to left", enum: []string{"left", "right"}},
	"label":      {text: "which end of a bucket is its time; defaults to left", enum: []string{"left", "right"}},
	"aggregates": {text: "what is made of a bucket's samples: count, sum, mean, min, max, 95pct, rate:sum and others"},
	"define":     {text: "aggregates that the request defines: name, state, add, result, and perhaps aliases and merge", object: true},
	"by":         {text: "labels to group by"}, "without": {text: "labels to group by all but"},
	"reaggregate": {text: "an aggregate of the values of a group's series, in place of one of all their samples"},
	"fill":        {text: "what buckets without samples get: none, null, prev, linear or a number"},
	"explain":     {text: "true: the answer says how it was computed; JSON alone"},
	"timeout":     timeout, "limit": limit, "executor": executor, "strict": strict, "analyze": analyze, "format": format, "layout": layout,
}

// formats are the values of format: those of /query, and text of /explain.
func formats() (names []string) {
	for _, f := range table.Formats {
		names = append(names, f.Name)
	}
	return append(names, "text")
}

// resampling are the fields of resample requests, by all of their names.
func resampling() map[string]field {
	all := map[string]field{}
	for _, f := range resample.Fields() {
		of := texts[f.Name]
		of.list = f.List
		all[f.Name] = of
		for _, alias := range f.Aliases {
			of.text = "the same as " + f.Name
			all[alias] = of
		}
	}
	return all
}

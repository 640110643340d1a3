package resample

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones are known where the host has no table of them

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/bucket"
)

// field is a field of a request.
type field struct {
	name    string
	aliases []string
	// decides says that a request with the field is a resample request.
	decides bool
	parse   func(p *parsing, values []string) error // nil where others read the field
}

// fieldTable are all fields, in the order in which they are parsed.
func fieldTable() []field {
	return []field{
		{name: "match[]", aliases: []string{"match"}, parse: (*parsing).selectors},
		{name: "metric", decides: true, parse: (*parsing).metric},
		{name: "timezone", aliases: []string{"tz"}, decides: true, parse: (*parsing).zone},
		{name: "start", parse: func(p *parsing, v []string) (err error) { p.r.Start, err = p.time(v[0]); return err }},
		{name: "end", aliases: []string{"stop"}, parse: func(p *parsing, v []string) (err error) { p.r.End, err = p.time(v[0]); return err }},
		{name: "every", aliases: []string{"granularity"}, decides: true, parse: func(p *parsing, v []string) (err error) { p.r.Layout.Every, err = length(v[0]); return err }},
		{name: "period", decides: true, parse: func(p *parsing, v []string) (err error) { p.r.Layout.Period, err = length(v[0]); return err }},
		{name: "origin", decides: true, parse: (*parsing).origin},
		{name: "offset", decides: true, parse: (*parsing).offset},
		{name: "closed", decides: true, parse: func(p *parsing, v []string) (err error) { p.r.Layout.ClosedRight, err = side(v[0]); return err }},
		{name: "label", decides: true, parse: func(p *parsing, v []string) (err error) { p.r.Layout.LabelRight, err = side(v[0]); return err }},
		{name: "define", decides: true, parse: (*parsing).define},
		{name: "aggregates", aliases: []string{"aggregation"}, decides: true, parse: (*parsing).aggregates},
		{name: "by", aliases: []string{"groupby"}, decides: true, parse: func(p *parsing, v []string) error { return p.grouping(false, v) }},
		{name: "without", decides: true, parse: func(p *parsing, v []string) error { return p.grouping(true, v) }},
		{name: "reaggregate", aliases: []string{"reaggregation"}, decides: true, parse: (*parsing).reaggregate},
		{name: "fill", decides: true, parse: (*parsing).fill},
		{name: "limit", parse: (*parsing).limit},
		{name: "explain", parse: func(p *parsing, v []string) (err error) { p.r.Explained, err = truth(v[0]); return err }},
		{name: "analyze"}, {name: "timeout", parse: func(_ *parsing, v []string) error { _, err := bucket.ParseSpan(v[0]); return err }}, {name: "executor"}, {name: "strict"}, {name: "format"}, {name: "layout"},
	}
}

// lists are the fields that may be given several times.
var lists = []string{"match[]", "aggregates", "define", "by", "without"}

// Field is a field of requests, for who describes them.
type Field struct {
	Name    string
	Aliases []string
	List    bool // it may be given several times
}

// Fields are all fields of requests.
func Fields() (all []Field) {
	for _, f := range fields {
		all = append(all, Field{f.name, f.aliases, slices.Contains(lists, f.name)})
	}
	return all
}

var (
	fields = fieldTable()
	// named are the fields by all of their names.
	named = func() map[string]*field {
		m := map[string]*field{}
		for i := range fields {
			for _, name := range append([]string{fields[i].name}, fields[i].aliases...) {
				m[name] = &fields[i]
			}
		}
		return m
	}()
)

// Asked reports whether a form is a resample request: one with a field that PromQL's requests do
// not have, or with match[] in place of a query.
func Asked(form url.Values) bool {
	for name := range form {
		if f := named[name]; f != nil && (f.decides || f.name == "match[]" && !form.Has("query")) {
			return true
		}
	}
	return false
}

// parsing is a form while it is parsed.
type parsing struct {
	Known
	r   Request
	now time.Time
}

// Known is what requests may be written with.
type Known struct {
	Parser     parser.Parser // of selectors
	Aggregates aggregate.Library
	Define     bool // whether requests may define aggregates
}

// Parse reads a request from a form. Relative times are relative to now. What is wrong is an *Error.
func Parse(form url.Values, now time.Time, known Known) (*Request, error) {
	if form.Has("query") {
		return nil, &Error{CodeConflict, "query", "a request is either PromQL or has the fields of resampling", "leave one of them out"}
	}
	given := map[*field]string{} // the name under which the request has it
	for _, name := range slices.Sorted(maps.Keys(form)) {
		f := named[name]
		if f == nil {
			e := &Error{Code: CodeUnknownField, Field: clip(name), Text: "there is no such field"}
			if near := aggregate.Nearest(name, fieldNames()); near != "" {
				e.Hint = fmt.Sprintf("did you mean %q?", near)
			}
			return nil, e
		}
		if other, twice := given[f]; twice {
			return nil, &Error{CodeRepeatedField, name, fmt.Sprintf("it is the same as %q", other), "leave one of them out"}
		}
		given[f] = name
	}
	p := &parsing{Known: known, now: now}
	p.r.Layout.Zone, p.r.End = time.UTC, now.UnixMilli()
	for i := range fields {
		f := &fields[i]
		name, ok := given[f]
		if !ok || f.parse == nil {
			continue
		}
		values := form[name]
		if len(values) != 1 && !slices.Contains(lists, f.name) {
			return nil, &Error{CodeRepeatedField, name, "it can be given once", "leave the others out"}
		}
		if err := f.parse(p, values); err != nil {
			var e *Error
			if !errors.As(err, &e) {
				e = &Error{Code: CodeInvalidValue, Text: err.Error()}
			}
			e.Field = name
			return nil, e
		}
	}
	return &p.r, p.complete(given)
}

// complete checks what several fields say together.
func (p *parsing) complete(given map[*field]string) error {
	has := func(name string) bool { _, ok := given[named[name]]; return ok }
	missing := func(name, hint string) error { return &Error{CodeMissingField, name, "it is missing", hint} }
	switch r := &p.r; {
	case len(r.Selectors) == 0:
		return missing("match[]", "give a selector, or a name as metric")
	case !has("start"):
		return missing("start", "give a time, such as -1h")
	case !has("every"):
		return missing("every", "give the length of a bucket, such as 5m or 1d")
	case len(r.Aggregates) == 0:
		return missing("aggregates", "give some of "+strings.Join(p.Aggregates.Names(), ", "))
	case has("by") && has("without"):
		return &Error{CodeConflict, given[named["without"]], "there is by, too", "leave one of them out"}
	case r.End <= r.Start:
		return &Error{CodeEmptyRange, "end", "it is not after start", "give a later end, or an earlier start"}
	case r.Reaggregate != nil && r.Grouping == nil:
		r.Grouping = &Grouping{} // all series
	}
	return nil
}

func (p *parsing) zone(values []string) (err error) {
	// LoadLocation knows "Local", which is the server's and means nothing to a client.
	if values[0] == "" || values[0] == "Local" {
		err = errors.New("no zone")
	} else {
		p.r.Layout.Zone, err = time.LoadLocation(values[0])
	}
	if err != nil {
		return &Error{Code: CodeUnknownZone, Text: fmt.Sprintf("there is no time zone %.100q", values[0]), Hint: "use a name such as UTC or Europe/Berlin"}
	}
	return nil
}

// The first and the last time of a request, in ms: the years 1 to 9999.
const minTime, maxTime = -62_135_596_800_000, 253_402_300_799_999

// time reads seconds since the epoch, RFC 3339, now, or a span before now: -30d, now-30d.
func (p *parsing) time(text string) (int64, error) {
	ms := int64(0)
	relative, isNow := strings.CutPrefix(text, "now")
	back, isBack := strings.CutPrefix(relative, "-")
	f, numErr := strconv.ParseFloat(text, 64)
	at, timeErr := time.Parse(time.RFC3339Nano, text)
	switch {
	case isNow && relative == "":
		ms = p.now.UnixMilli()
	case isBack && (isNow || numErr != nil):
		s, err := bucket.ParseSpan(back)
		if err != nil {
			return 0, err
		}
		ms = s.AddTo(p.now.UnixMilli(), -1, p.r.Layout.Zone)
	case numErr == nil && f*1000 >= minTime && f*1000 <= maxTime:
		ms = int64(math.Round(f * 1000))
	case timeErr == nil:
		ms = at.UnixMilli()
	case numErr == nil:
		ms = minTime - 1
	default:
		return 0, fmt.Errorf("%.100q is no time: use seconds since the epoch, RFC 3339, now, or a time before it such as -30d", text)
	}
	if ms < minTime || ms > maxTime {
		return 0, &Error{Code: CodeOutOfRange, Text: "it is not within the years 1 to 9999"}
	}
	return ms, nil
}

// length reads a span that is not empty.
func length(text string) (bucket.Span, error) {
	s, err := bucket.ParseSpan(text)
	if err == nil && s.N <= 0 {
		return s, &Error{Code: CodeOutOfRange, Text: "it must be longer than 0"}
	}
	return s, err
}

func (p *parsing) origin(values []string) (err error) {
	l := &p.r.Layout
	l.HasOrigin = values[0] != "epoch"
	switch values[0] {
	case "epoch":
	case "start":
		l.Origin = p.r.Start
	default:
		l.Origin, err = p.time(values[0])
	}
	return err
}

func (p *parsing) offset(values []string) error {
	s, err := bucket.ParseSpan(values[0])
	switch {
	case err != nil:
		return err
	case s.Unit == bucket.Month:
		return &Error{Code: CodeOutOfRange, Text: "months and years have no fixed length", Hint: "use days or shorter units, or origin"}
	}
	p.r.Layout.Offset = int64(s.Millis())
	return nil
}

func side(text string) (right bool, err error) {
	if text != "left" && text != "right" {
		return false, fmt.Errorf("%.100q is neither left nor right", text)
	}
	return text == "right", nil
}

func truth(text string) (bool, error) {
	b, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("cannot parse %.100q: use true or false", text)
	}
	return b, nil
}

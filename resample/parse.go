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

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/bucket"
	"github.com/promwarp/promwarp/resample/custom"
)

// Field is a field of requests.
type Field struct {
	Name    string
	Aliases []string
	List    bool // it may be given several times
	// decides says that a request with the field is a resample request.
	decides bool
	parse   func(p *parsing, values []string) error // nil where others read the field
}

// fieldTable are all fields, in the order in which they are parsed.
func fieldTable() []Field {
	return []Field{
		{Name: "match[]", Aliases: []string{"match"}, List: true, parse: (*parsing).selectors},
		{Name: "metric", decides: true, parse: (*parsing).metric},
		{Name: "timezone", Aliases: []string{"tz"}, decides: true, parse: (*parsing).zone},
		{Name: "start", parse: func(p *parsing, v []string) (err error) { p.r.Start, err = p.time(v[0]); return err }},
		{Name: "end", Aliases: []string{"stop"}, parse: func(p *parsing, v []string) (err error) { p.r.End, err = p.time(v[0]); return err }},
		{Name: "every", Aliases: []string{"granularity"}, decides: true, parse: func(p *parsing, v []string) (err error) { p.r.Layout.Every, err = length(v[0]); return err }},
		{Name: "period", decides: true, parse: func(p *parsing, v []string) (err error) { p.r.Layout.Period, err = length(v[0]); return err }},
		{Name: "origin", decides: true, parse: (*parsing).origin},
		{Name: "offset", decides: true, parse: (*parsing).offset},
		{Name: "closed", decides: true, parse: func(p *parsing, v []string) (err error) { p.r.Layout.ClosedRight, err = side(v[0]); return err }},
		{Name: "label", decides: true, parse: func(p *parsing, v []string) (err error) { p.r.Layout.LabelRight, err = side(v[0]); return err }},
		{Name: "define", List: true, decides: true, parse: (*parsing).define},
		{Name: "aggregates", Aliases: []string{"aggregation"}, List: true, decides: true, parse: (*parsing).aggregates},
		{Name: "by", Aliases: []string{"groupby"}, List: true, decides: true, parse: func(p *parsing, v []string) error { return p.grouping(false, v) }},
		{Name: "without", List: true, decides: true, parse: func(p *parsing, v []string) error { return p.grouping(true, v) }},
		{Name: "reaggregate", Aliases: []string{"reaggregation"}, decides: true, parse: (*parsing).reaggregate},
		{Name: "fill", decides: true, parse: (*parsing).fill},
		{Name: "limit", parse: (*parsing).limit},
		{Name: "explain", parse: func(p *parsing, v []string) (err error) { p.r.Explained, err = truth(v[0]); return err }},
		{Name: "analyze"}, {Name: "timeout", parse: func(_ *parsing, v []string) error { _, err := bucket.ParseSpan(v[0]); return err }}, {Name: "executor"}, {Name: "strict"}, {Name: "format"}, {Name: "layout"},
	}
}

// Fields are all fields of requests, for who describes them.
func Fields() []Field { return fields }

var (
	fields = fieldTable()
	// named are the fields by all of their names.
	named = func() map[string]*Field {
		m := map[string]*Field{}
		for i := range fields {
			for _, name := range append([]string{fields[i].Name}, fields[i].Aliases...) {
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
		if f := named[name]; f != nil && (f.decides || f.Name == "match[]" && !form.Has("query")) {
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
	given := map[*Field]string{} // the name under which the request has it
	for _, name := range slices.Sorted(maps.Keys(form)) {
		f := named[name]
		if f == nil {
			var names []string
			for _, f := range fields {
				names = append(names, f.Name)
			}
			return nil, &Error{CodeUnknownField, clip(name), "there is no such field", aggregate.DidYouMean(name, names, "")}
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
		if len(values) != 1 && !f.List {
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
func (p *parsing) complete(given map[*Field]string) error {
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
	// LoadLocation knows "Local", which is the server's and means nothing to a client, and "", which is UTC.
	p.r.Layout.Zone, err = time.LoadLocation(values[0])
	if err != nil || values[0] == "" || values[0] == "Local" {
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

// maxAggregates is the most aggregates of a request.
const maxAggregates = 100

// list is the items of fields that are lists: given several times, or with commas, or both.
func list(values []string) (items []string) {
	for _, v := range values {
		for item := range strings.SplitSeq(v, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
	}
	return items
}

func (p *parsing) selectors(values []string) error {
	if slices.Contains(values, "") {
		return &Error{Code: CodeInvalidValue, Text: "there is no selector in it", Hint: `give one, such as up or {job="api"}, or a name as metric`}
	}
	sets, err := p.Parser.ParseMetricSelectors(values)
	if err != nil {
		return err
	}
	for i, ms := range sets {
		if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches("") }) {
			return fmt.Errorf("%.100q would match every series: it must have a matcher that does not match the empty string", values[i])
		}
	}
	p.r.Selectors = append(p.r.Selectors, sets...)
	return nil
}

func (p *parsing) metric(values []string) error {
	if values[0] == "" {
		return errors.New("it is empty")
	}
	m := labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, values[0])
	p.r.Selectors = append(p.r.Selectors, []*labels.Matcher{m})
	return nil
}

func (p *parsing) aggregates(values []string) error {
	texts := list(values)
	if len(texts) > maxAggregates {
		return &Error{Code: CodeOutOfRange, Text: fmt.Sprintf("there are %d, and can be %d at most", len(texts), maxAggregates)}
	}
	for _, text := range texts {
		a, err := p.Aggregates.Parse(text)
		var unknown *aggregate.UnknownError
		switch {
		case errors.As(err, &unknown):
			return &Error{Code: CodeUnknownAggregate, Text: fmt.Sprintf("there is no aggregate %q", clip(text)), Hint: unknown.Hint}
		case err != nil:
			return &Error{Code: CodeOutOfRange, Text: fmt.Sprintf("%q: %v", clip(text), err)}
		}
		for _, b := range p.r.Aggregates {
			if a.Definition == b.Definition && a.Q == b.Q && a.Rate == b.Rate {
				return &Error{Code: CodeRepeatedField, Text: fmt.Sprintf("%q is the same as %q", clip(text), b.Text), Hint: "leave one of them out"}
			}
		}
		p.r.Aggregates = append(p.r.Aggregates, a)
	}
	return nil
}

// maxDefined is the most aggregates that a request may define.
const maxDefined = 8

// define adds aggregates that the request defines to the aggregates that it may name.
func (p *parsing) define(values []string) error {
	switch {
	case !p.Define:
		return &Error{Code: CodeUnsupported, Text: "requests may not define aggregates here", Hint: "the server would have to be started with --query.custom-aggregates, or to define them in its configuration"}
	case len(values) > maxDefined:
		return &Error{Code: CodeOutOfRange, Text: fmt.Sprintf("there are %d, and can be %d at most", len(values), maxDefined)}
	}
	var sources []custom.Source
	for _, text := range values {
		if text == "" {
			continue // of an empty list
		}
		s, err := custom.Read([]byte(text))
		if err != nil {
			return fmt.Errorf("%s; give an object with name, state, add, result and perhaps merge", clip(err.Error()))
		}
		sources = append(sources, s)
	}
	l, err := custom.AddTo(p.Aggregates, sources)
	if wrong, ok := errors.AsType[*custom.Error](err); ok {
		hint := wrong.Hint
		wrong.Hint = ""
		return &Error{Code: CodeInvalidAggregate, Text: wrong.Error(), Hint: hint}
	}
	p.Aggregates = l
	return nil
}

func (p *parsing) grouping(without bool, values []string) error {
	ls := list(values)
	slices.Sort(ls)
	for i, l := range ls {
		switch {
		case !model.UTF8Validation.IsValidLabelName(l):
			return fmt.Errorf("%q is no name of a label", clip(l))
		case i > 0 && l == ls[i-1]:
			return &Error{Code: CodeRepeatedField, Text: fmt.Sprintf("%q is there twice", clip(l)), Hint: "leave one of them out"}
		case l == LabelAggregate && !without:
			return &Error{Code: CodeLabelClash, Text: fmt.Sprintf("the answer has a label %q of its own", l), Hint: "group by other labels"}
		}
	}
	p.r.Grouping = &Grouping{Without: without, Labels: ls}
	return nil
}

func (p *parsing) reaggregate(values []string) error {
	a, err := p.Aggregates.Parse(values[0])
	if err == nil && a.Reaggregates && !a.Rate {
		p.r.Reaggregate = a.Definition
		return nil
	}
	var can []string
	for _, d := range p.Aggregates.All() {
		if d.Reaggregates {
			can = append(can, d.Name)
		}
	}
	hint := aggregate.DidYouMean(values[0], can, "use "+strings.Join(can, ", "))
	return &Error{Code: CodeUnknownAggregate, Text: fmt.Sprintf("%q cannot be made of the values of series", clip(values[0])), Hint: hint}
}

// fillings are the names of fillings: pandas', QuestDB's and Timescale's beside ours.
var fillings = map[string]Filling{
	"none": FillNone, "null": FillNull,
	"prev": FillPrev, "locf": FillPrev, "ffill": FillPrev, "forward": FillPrev,
	"linear": FillLinear, "interpolate": FillLinear,
}

func (p *parsing) fill(values []string) error {
	if f, ok := fillings[values[0]]; ok {
		p.r.Fill.Filling = f
		return nil
	}
	f, err := strconv.ParseFloat(values[0], 64)
	if err != nil && !math.IsInf(f, 0) {
		return fmt.Errorf("%q is no filling: use none, null, prev, linear or a number", clip(values[0]))
	}
	p.r.Fill = Fill{FillNumber, f}
	return nil
}

func (p *parsing) limit(values []string) error {
	n, err := strconv.Atoi(values[0])
	if err != nil || n < 0 {
		return fmt.Errorf("%q is no number of series", clip(values[0]))
	}
	p.r.Limit = n
	return nil
}

// clip is the beginning of a text that an error repeats.
func clip(text string) string {
	if len(text) > 100 {
		return strings.ToValidUTF8(text[:100], "") + "…"
	}
	return text
}

// Error is the error of a request that is wrong. Nothing was computed.
type Error struct {
	Code  string // one of the codes below, which stay as they are
	Field string // as the request names it; empty if it is none of them
	Text  string // what is wrong
	Hint  string // what to do; may be empty
}

// The codes of errors.
const (
	CodeBadJSON          = "bad_json"          // the body is no JSON object of fields
	CodeUnknownField     = "unknown_field"     // there is no such field
	CodeRepeatedField    = "repeated_field"    // a field is there twice, or under two names
	CodeMissingField     = "missing_field"     // a field that must be there is not
	CodeConflict         = "conflict"          // two fields exclude each other
	CodeInvalidValue     = "invalid_value"     // a value does not parse
	CodeOutOfRange       = "out_of_range"      // a value parses and cannot be
	CodeInvalidAggregate = "invalid_aggregate" // an aggregate that the request defines is wrong
	CodeUnknownAggregate = "unknown_aggregate" // there is no such aggregate
	CodeUnknownZone      = "unknown_zone"      // there is no such time zone
	CodeTooManyBuckets   = "too_many_buckets"  // the range has more than bucket.MaxBuckets
	CodeEmptyRange       = "empty_range"       // end is not after start, or no bucket fits
	CodeLabelClash       = "label_clash"       // a label of a series has a name that the answer needs
	CodeTooManyColumns   = "too_many_columns"  // the wide layout of the answer has more columns than can be
	CodeUnsupported      = "unsupported"       // what the request asks for cannot be had here
)

// Codes are the codes of all errors.
var Codes = []string{
	CodeBadJSON, CodeUnknownField, CodeRepeatedField, CodeMissingField, CodeConflict, CodeInvalidValue, CodeOutOfRange, CodeInvalidAggregate, CodeUnknownAggregate,
	CodeUnknownZone, CodeTooManyBuckets, CodeEmptyRange, CodeLabelClash, CodeTooManyColumns, CodeUnsupported,
}

func (e *Error) Error() string {
	text := e.Text
	if e.Field != "" {
		text = fmt.Sprintf("invalid parameter %q: %s", e.Field, e.Text)
	}
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

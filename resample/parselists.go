package resample

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/custom"
)

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
	m, err := labels.NewMatcher(labels.MatchEqual, model.MetricNameLabel, values[0])
	p.r.Selectors = append(p.r.Selectors, []*labels.Matcher{m})
	return err
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
			e := &Error{Code: CodeUnknownAggregate, Text: fmt.Sprintf("there is no aggregate %q", clip(text)), Hint: "use " + strings.Join(p.Aggregates.Names(), ", ")}
			if unknown.Nearest != "" {
				e.Hint = fmt.Sprintf("did you mean %q?", unknown.Nearest)
			}
			return e
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

// define adds aggregates that the request defines to those that it may name.
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
	var wrong *custom.Error
	if errors.As(err, &wrong) {
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
	e := &Error{Code: CodeUnknownAggregate, Text: fmt.Sprintf("%q cannot be made of the values of series", clip(values[0])), Hint: "use " + strings.Join(can, ", ")}
	if near := aggregate.Nearest(values[0], can); near != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	return e
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

// fieldNames are the names of all fields.
func fieldNames() (names []string) {
	for _, f := range fields {
		names = append(names, f.name)
	}
	return names
}

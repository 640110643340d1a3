package config

import (
	"fmt"
	"strconv"

	"github.com/promwarp/promwarp/planner"
)

// TextSettings bound the text of a query and the lists of a request.
type TextSettings struct {
	MaxDepth      int `yaml:"max_depth"`
	MaxLength     int `yaml:"max_length"`
	MaxRegexpSize int `yaml:"max_regexp_size"`
	MaxSelectors  int `yaml:"max_selectors"`
	MaxItems      int `yaml:"max_items"`
}

func defaultText() TextSettings {
	return TextSettings{
		MaxDepth: planner.DefaultDepth, MaxLength: planner.DefaultLength, MaxRegexpSize: planner.DefaultRegexpSize,
		MaxSelectors: planner.DefaultSelectors, MaxItems: planner.DefaultItems,
	}
}

// Limits are the settings as the engine and the doors take them.
func (s *TextSettings) Limits() planner.Limits {
	return planner.Limits{Depth: s.MaxDepth, Length: s.MaxLength, RegexpSize: s.MaxRegexpSize, Selectors: s.MaxSelectors, Items: s.MaxItems}
}

func (s *TextSettings) validate() error {
	return broken(
		rule{s.MaxDepth <= 0, fmt.Sprintf("query.max_depth must be more than 0; the default is %d", planner.DefaultDepth)},
		rule{s.MaxLength <= 0, fmt.Sprintf("query.max_length must be more than 0; the default is %d", planner.DefaultLength)},
		rule{s.MaxRegexpSize <= 0, fmt.Sprintf("query.max_regexp_size must be more than 0; the default is %d", planner.DefaultRegexpSize)},
		rule{s.MaxSelectors <= 0, fmt.Sprintf("query.max_selectors must be more than 0; the default is %d", planner.DefaultSelectors)},
		rule{s.MaxItems <= 0, fmt.Sprintf("query.max_items must be more than 0; the default is %d", planner.DefaultItems)},
	)
}

// values lists the settings by the names of their flags.
func (s *TextSettings) values() map[string]string {
	return map[string]string{
		"query.max-depth":       strconv.Itoa(s.MaxDepth),
		"query.max-length":      strconv.Itoa(s.MaxLength),
		"query.max-regexp-size": strconv.Itoa(s.MaxRegexpSize),
		"query.max-selectors":   strconv.Itoa(s.MaxSelectors),
		"query.max-items":       strconv.Itoa(s.MaxItems),
	}
}

// addText declares the flags that bound the text of a query.
func (f *Flags) addText(to flagger) {
	f.number(to, "query.max-depth", "2500", "Most levels that a query may be nested, operators in a row included.", func(s *Settings) *int { return &s.Query.MaxDepth })
	f.number(to, "query.max-length", "1048576", "Most bytes of a query's text.", func(s *Settings) *int { return &s.Query.MaxLength })
	f.number(to, "query.max-regexp-size", "524288", "Most instructions, of 40 bytes each, that the regular expressions of a query may compile to.", func(s *Settings) *int { return &s.Query.MaxRegexpSize })
	f.number(to, "query.max-selectors", "1000", "Most selectors of a request.", func(s *Settings) *int { return &s.Query.MaxSelectors })
	f.number(to, "query.max-items", "200", "Most matchers of a selector, labels of a grouping, or items of another list of a request.", func(s *Settings) *int { return &s.Query.MaxItems })
}

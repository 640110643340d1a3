package config

import (
	"encoding"
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/common/model"

	"github.com/promwarp/promwarp/engine/compare"
)

// compareSettings say which queries Prometheus's engine evaluates as well.
type compareSettings struct {
	// Fraction is the part of all queries, 0 to 1.
	Fraction part `yaml:"fraction"`
	// Concurrency is how many at once.
	Concurrency int `yaml:"concurrency"`
	// Timeout is the longest that one may take.
	Timeout model.Duration `yaml:"timeout"`
}

func defaultCompare() compareSettings {
	return compareSettings{Concurrency: 1, Timeout: model.Duration(time.Minute)}
}

// validate checks what the types cannot say.
func (s *compareSettings) validate() error {
	switch {
	case !(s.Fraction >= 0 && s.Fraction <= 1):
		return errors.New("compare.fraction must be 0 to 1; 0 compares nothing")
	case s.Concurrency < 1:
		return errors.New("compare.concurrency must be at least 1; compare.fraction: 0 compares nothing")
	case s.Timeout <= 0:
		return errors.New("compare.timeout must be more than 0; the default is 1m")
	}
	return nil
}

// addCompare declares the flags of comparisons.
func (f *Flags) addCompare(to flagger) {
	f.parsed(to, "compare.fraction", "0", "Part of all queries, 0 to 1, that Prometheus's engine evaluates as well, in the background and over the same samples; where its answer differs, the log and the metrics say so.", func(s *Settings) encoding.TextUnmarshaler { return &s.Compare.Fraction })
	f.number(to, "compare.concurrency", "1", "Most of these evaluations at once; queries for which there is no room are not compared.", func(s *Settings) *int { return &s.Compare.Concurrency })
	f.parsed(to, "compare.timeout", "1m", "Longest that one of them may take.", func(s *Settings) encoding.TextUnmarshaler { return &s.Compare.Timeout })
}

// values lists the settings by the names of their flags.
func (s *compareSettings) values() map[string]string {
	return map[string]string{
		"compare.fraction":    s.Fraction.String(),
		"compare.concurrency": strconv.Itoa(s.Concurrency),
		"compare.timeout":     s.Timeout.String(),
	}
}

// Limits are those of a comparer.
func (s *compareSettings) Limits() compare.Limits {
	return compare.Limits{Fraction: float64(s.Fraction), Concurrency: s.Concurrency, Timeout: time.Duration(s.Timeout)}
}

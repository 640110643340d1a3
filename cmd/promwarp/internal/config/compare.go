package config

import (
	"encoding"
	"errors"
	"time"

	"github.com/prometheus/common/model"
)

// compareSettings say which queries the upstream is asked as well.
type compareSettings struct {
	// Fraction is the part of all queries, 0 to 1.
	Fraction part `yaml:"fraction"`
	// Timeout is the longest that comparing one may take.
	Timeout model.Duration `yaml:"timeout"`
}

func defaultCompare() compareSettings {
	return compareSettings{Timeout: model.Duration(time.Minute)}
}

// validate checks what the types cannot say.
func (s *compareSettings) validate() error {
	switch {
	case !(s.Fraction >= 0 && s.Fraction <= 1):
		return errors.New("compare.fraction must be 0 to 1; 0 compares nothing")
	case s.Timeout <= 0:
		return errors.New("compare.timeout must be more than 0; the default is 1m")
	}
	return nil
}

// addCompare declares the flags of comparisons.
func (f *Flags) addCompare(to flagger) {
	f.parsed(to, "compare.fraction", "0", "Part of all queries, 0 to 1, that promwarp and the upstream are asked again, one at a time, when their samples are ten minutes old; where the answers differ, the log and the metrics say so.", func(s *Settings) encoding.TextUnmarshaler { return &s.Compare.Fraction })
	f.parsed(to, "compare.timeout", "1m", "Longest that comparing one of them may take.", func(s *Settings) encoding.TextUnmarshaler { return &s.Compare.Timeout })
}

// values lists the settings by the names of their flags.
func (s *compareSettings) values() map[string]string {
	return map[string]string{"compare.fraction": s.Fraction.String(), "compare.timeout": s.Timeout.String()}
}

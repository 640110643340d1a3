package config

import (
	"errors"
	"fmt"

	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/custom"
)

// addAggregates declares the flag that lets requests define aggregates.
func (f *Flags) addAggregates(to flagger) {
	f.onOff(to, "query.custom-aggregates", "Let resample requests define aggregates of their own, as the configuration file does under aggregates.", func(s *Settings) *bool { return &s.Query.CustomAggregates })
}

// Library is the aggregates that resample requests may name: the built-in ones, and those of the
// configuration file.
func (s *Settings) Library() (l aggregate.Library, err error) {
	var all []error
	for i := range s.Aggregates {
		with, err := custom.AddTo(l, s.Aggregates[i:i+1])
		if err != nil {
			all = append(all, fmt.Errorf("aggregates: entry %d: %w", i+1, err))
			continue
		}
		l = with
	}
	return l, errors.Join(all...)
}

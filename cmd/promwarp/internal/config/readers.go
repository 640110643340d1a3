package config

import (
	"encoding"
	"errors"
	"time"

	"github.com/prometheus/common/model"
)

// remoteReaders say what the paths below /api/v1/read/ cannot know of their readers.
type remoteReaders struct {
	// Lookback is the --query.lookback-delta of those who read there.
	Lookback model.Duration `yaml:"reader_lookback"`
}

func defaultReaders() remoteReaders { return remoteReaders{model.Duration(defaultLookback)} }

// validate checks what the types cannot say.
func (s *remoteReaders) validate() error {
	if s.Lookback < model.Duration(time.Millisecond) {
		return errors.New("read.reader_lookback must be at least 1ms; the default is 5m")
	}
	return nil
}

// addReaders declares the flags of the reduced remote read.
func (f *Flags) addReaders(to flagger) {
	f.parsed(to, "read.reader-lookback", "5m", "The --query.lookback-delta of those who read /api/v1/read/thin and /api/v1/read/aggregate, which they do not say.", func(s *Settings) encoding.TextUnmarshaler { return &s.Readers.Lookback })
}

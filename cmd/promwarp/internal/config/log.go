package config

import (
	"encoding"
	"fmt"
	"io"
	"log/slog"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
)

// logSettings are those of the program's log.
type logSettings struct {
	Level  string `yaml:"level"`
	Format string `yaml:"format"`
	// Queries has each query logged.
	Queries bool `yaml:"queries"`
	// SlowQueries is how long a query takes that is logged with its plan; 0 logs none.
	SlowQueries model.Duration `yaml:"slow_queries"`
}

// addLog declares the flags of what a server logs.
func (f *Flags) addLog(to flagger) {
	f.onOff(to, "log.queries", "Log each PromQL query: its number, who evaluated it, how long that took, and the samples.", func(s *Settings) *bool { return &s.Log.Queries })
	f.parsed(to, "log.slow-queries", "0s", "Log queries whose evaluation takes so long or longer, with their plans; 0 logs none.", func(s *Settings) encoding.TextUnmarshaler { return &s.Log.SlowQueries })
}

// NewLogger returns the program's log, as in Prometheus. A nil w is standard
// error.
func NewLogger(s logSettings, w io.Writer) (*slog.Logger, error) {
	c := promslog.Config{Level: promslog.NewLevel(), Format: promslog.NewFormat(), Writer: w}
	if err := c.Level.Set(s.Level); err != nil {
		return nil, fmt.Errorf("log.level %q: use debug, info, warn or error", s.Level)
	}
	if err := c.Format.Set(s.Format); err != nil {
		return nil, fmt.Errorf("log.format %q: use logfmt or json", s.Format)
	}
	return promslog.New(&c), nil
}

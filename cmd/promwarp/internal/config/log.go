package config

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/prometheus/common/promslog"
)

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

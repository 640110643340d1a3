package tsdbdir

import (
	"context"
	"log/slog"
)

// quiet passes on warnings and errors only: replaying a log tells of every
// segment.
func quiet(l *slog.Logger) *slog.Logger { return slog.New(warnings{l.Handler()}) }

type warnings struct{ slog.Handler }

func (h warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && h.Handler.Enabled(ctx, l)
}

func (h warnings) WithAttrs(a []slog.Attr) slog.Handler { return warnings{h.Handler.WithAttrs(a)} }
func (h warnings) WithGroup(n string) slog.Handler      { return warnings{h.Handler.WithGroup(n)} }

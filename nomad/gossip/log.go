package gossip

import (
	"context"
	"log/slog"
	"strings"
)

// levels sets the slog level of serf's lines, which carry their level as text. Serf's INFO lines
// become debug lines.
type levels struct{ slog.Handler }

// Enabled passes every line to Handle, which determines its level.
func (l levels) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l levels) Handle(ctx context.Context, r slog.Record) error {
	text, level := r.Message, slog.LevelDebug
	for mark, is := range map[string]slog.Level{"[WARN] ": slog.LevelWarn, "[ERR] ": slog.LevelWarn, "[ERROR] ": slog.LevelWarn,
		"[INFO] ": slog.LevelDebug, "[DEBUG] ": slog.LevelDebug} {
		if rest, ok := strings.CutPrefix(text, mark); ok {
			text, level = rest, is
		}
	}
	if !l.Handler.Enabled(ctx, level) {
		return nil
	}
	out := slog.NewRecord(r.Time, level, "gossip", r.PC)
	out.AddAttrs(slog.String("line", text))
	return l.Handler.Handle(ctx, out)
}

package consensus

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// raftLogger returns a logger for raft and its stores that writes to log. It lowers Info to
// Debug, because raft logs routine events as Info.
func raftLogger(log *slog.Logger) hclog.Logger {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Level: hclog.Off, Output: io.Discard})
	l.RegisterSink(slogSink{log, hclog.NoLevel})
	return l
}

// LibraryLogger returns the logger for libraries that use raft.
func LibraryLogger(log *slog.Logger) hclog.Logger { return raftLogger(log) }

// transportLogger is raftLogger without warnings. The transport warns about every server that
// is not a member yet.
func transportLogger(log *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft.transport", Level: hclog.Off, Output: io.Discard})
	l.RegisterSink(slogSink{log, hclog.Error})
	return l
}

// slogSink implements hclog.SinkAdapter.
type slogSink struct {
	log *slog.Logger
	min hclog.Level
}

// Accept writes one record.
func (s slogSink) Accept(name string, level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	switch level {
	case hclog.Warn:
		to = slog.LevelWarn
	case hclog.Error:
		to = slog.LevelError
	}
	if level < s.min || !s.log.Enabled(context.Background(), to) {
		return
	}
	for i, a := range args {
		switch v := a.(type) {
		case hclog.Format:
			args[i] = fmt.Sprintf(fmt.Sprint(v[0]), v[1:]...)
		case error:
			args[i] = v.Error()
		}
	}
	s.log.Log(context.Background(), to, msg, append([]any{"part", name}, args...)...)
}

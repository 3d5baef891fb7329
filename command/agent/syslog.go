package agent

import (
	"context"
	"fmt"
	"log/slog"
	"log/syslog"
	"sync/atomic"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/nomad/monitor"
)

const (
	syslogQueue = 512         // lines that wait for the daemon; more are dropped
	syslogClose = time.Second // for the last lines when the agent ends
	syslogTag   = "nomad"
)

// syslogSink sends lines to the syslog daemon in a goroutine of its own, so that a daemon that does
// not read cannot block the agent.
type syslogSink struct {
	to      *syslog.Writer
	lines   chan syslogLine
	dropped atomic.Int64
	stop    chan struct{}
	ended   chan struct{}
}

// syslogLine is one line with the method that writes it with its severity.
type syslogLine struct {
	write func(string) error
	text  string
}

// openSyslog connects to the daemon at an address, "" for that of this machine. It returns nil without
// enable_syslog.
func openSyslog(s *config.Settings, network, addr string) (*syslogSink, error) {
	if !s.EnableSyslog {
		return nil, nil
	}
	facility, err := config.SyslogFacility(s.SyslogFacility)
	if err != nil {
		return nil, s.Fault("syslog_facility", "%v", err)
	}
	to, err := syslog.Dial(network, addr, facility|syslog.LOG_INFO, syslogTag)
	if err != nil {
		return nil, fmt.Errorf("enable_syslog: connect to the syslog daemon: %w", err)
	}
	k := &syslogSink{to: to, lines: make(chan syslogLine, syslogQueue), stop: make(chan struct{}), ended: make(chan struct{})}
	go k.run()
	return k, nil
}

func (k *syslogSink) run() {
	defer close(k.ended)
	for {
		select {
		case l := <-k.lines:
			k.send(l)
		case <-k.stop:
			for len(k.lines) > 0 {
				k.send(<-k.lines)
			}
			return
		}
	}
}

// send writes a line. A line that the daemon does not accept counts as dropped.
func (k *syslogSink) send(l syslogLine) {
	if n := k.dropped.Swap(0); n > 0 && k.to.Warning(fmt.Sprintf("[WARN] syslog dropped %d lines", n)) != nil {
		k.dropped.Add(n)
	}
	if l.write(l.text) != nil {
		k.dropped.Add(1)
	}
}

// close sends the lines that wait, for at most syslogClose.
func (k *syslogSink) close() error {
	close(k.stop)
	select {
	case <-k.ended:
		return k.to.Close()
	case <-time.After(syslogClose):
		return fmt.Errorf("the syslog daemon did not accept the last lines within %v", syslogClose)
	}
}

// severity queues the lines of one severity.
type severity struct {
	sink  *syslogSink
	write func(string) error
}

func (v severity) Write(line []byte) (int, error) {
	select {
	case v.sink.lines <- syslogLine{v.write, string(line)}:
	default:
		v.sink.dropped.Add(1)
	}
	return len(line), nil
}

// handler returns the handler of records in a format.
func (k *syslogSink) handler(f monitor.Format) slog.Handler {
	to := func(write func(string) error) slog.Handler { return f.Handler(severity{k, write}) }
	return syslogHandler{debug: to(k.to.Debug), info: to(k.to.Info), warn: to(k.to.Warning), err: to(k.to.Err)}
}

// syslogHandler has a handler for each severity.
type syslogHandler struct{ debug, info, warn, err slog.Handler }

func (h syslogHandler) of(level slog.Level) slog.Handler {
	switch {
	case level >= slog.LevelError:
		return h.err
	case level >= slog.LevelWarn:
		return h.warn
	case level >= slog.LevelInfo:
		return h.info
	}
	return h.debug
}

// Enabled implements slog.Handler.
func (h syslogHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.of(level).Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h syslogHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.of(r.Level).Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h syslogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return syslogHandler{h.debug.WithAttrs(attrs), h.info.WithAttrs(attrs), h.warn.WithAttrs(attrs), h.err.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h syslogHandler) WithGroup(name string) slog.Handler {
	return syslogHandler{h.debug.WithGroup(name), h.info.WithGroup(name), h.warn.WithGroup(name), h.err.WithGroup(name)}
}

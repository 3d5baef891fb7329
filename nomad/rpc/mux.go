package rpc

import (
	"log/slog"
	"time"

	"github.com/hashicorp/yamux"
)

// Mux are the settings of multiplexed sessions; zero values mean the defaults of
// compat/wire.md section 2.
type Mux struct {
	// AcceptBacklog is how many streams may wait to be taken. Default 256.
	AcceptBacklog int
	// KeepAlive is how often the other side is asked whether it is there. Default 30 s.
	KeepAlive time.Duration
	// WriteTimeout bounds a write, and the answer to a keepalive. Default 10 s.
	WriteTimeout time.Duration
	// OpenTimeout bounds the opening of a stream. Default 75 s, negative is no bound.
	OpenTimeout time.Duration
	// CloseTimeout bounds the closing of a stream. Default 5 min, negative is no bound.
	CloseTimeout time.Duration
}

// config is the yamux configuration of either side.
func (m Mux) config(log *slog.Logger) *yamux.Config {
	cfg := yamux.DefaultConfig()
	if m.AcceptBacklog > 0 {
		cfg.AcceptBacklog = m.AcceptBacklog
	}
	for _, d := range []struct {
		to  *time.Duration
		set time.Duration
	}{
		{&cfg.KeepAliveInterval, m.KeepAlive}, {&cfg.ConnectionWriteTimeout, m.WriteTimeout},
		{&cfg.StreamOpenTimeout, m.OpenTimeout}, {&cfg.StreamCloseTimeout, m.CloseTimeout},
	} {
		if d.set != 0 {
			*d.to = max(0, d.set)
		}
	}
	cfg.LogOutput = nil
	cfg.Logger = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	return cfg
}

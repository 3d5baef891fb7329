package wire

import (
	"log/slog"
	"time"

	"github.com/hashicorp/yamux"
)

// Mux holds the settings of multiplexed sessions. Zero values mean the defaults, which are
// those of Nomad 2.0.
type Mux struct {
	// AcceptBacklog is how many streams may wait to be accepted. Default 256.
	AcceptBacklog int
	// KeepAlive is the interval between keepalive pings. Default 30 s.
	KeepAlive time.Duration
	// WriteTimeout limits a write, and the wait for the answer to a keepalive. Default 10 s.
	WriteTimeout time.Duration
	// OpenTimeout limits the opening of a stream. Default 75 s, negative means no limit.
	OpenTimeout time.Duration
	// CloseTimeout limits the closing of a stream. Default 5 min, negative means no limit.
	CloseTimeout time.Duration
}

// config returns the yamux configuration for either side.
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

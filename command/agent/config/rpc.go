package config

import (
	"errors"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad/rpc/wire"
)

// RPC is the rpc block.
type RPC struct {
	AcceptBacklog          int           `hcl:"accept_backlog" default:"256"`
	KeepAliveInterval      time.Duration `hcl:"keep_alive_interval" default:"30s"`
	ConnectionWriteTimeout time.Duration `hcl:"connection_write_timeout" default:"10s"`
	StreamOpenTimeout      time.Duration `hcl:"stream_open_timeout" default:"75s"`
	StreamCloseTimeout     time.Duration `hcl:"stream_close_timeout" default:"5m"`
	DialTimeout            time.Duration `hcl:"dial_timeout" default:"10s"`

	ignored []string
}

// Ignore implements decode.LenientBlock: Nomad ignores unknown keys in this block, and some of its examples have one.
func (r *RPC) Ignore(key string) { r.ignored = append(r.ignored, key) }

// Ignored returns the sorted keys of the block that the agent ignores.
func (r *RPC) Ignored() []string { return slices.Compact(slices.Sorted(slices.Values(r.ignored))) }

// checkRPC checks the rpc block.
func (s *Settings) checkRPC() error {
	r := &s.RPC
	var errs []error
	for path, d := range map[string]time.Duration{"rpc.keep_alive_interval": r.KeepAliveInterval,
		"rpc.connection_write_timeout": r.ConnectionWriteTimeout, "rpc.dial_timeout": r.DialTimeout} {
		if d <= 0 {
			errs = append(errs, s.Fault(path, "must be above 0"))
		}
	}
	for path, d := range map[string]time.Duration{"rpc.stream_open_timeout": r.StreamOpenTimeout,
		"rpc.stream_close_timeout": r.StreamCloseTimeout} {
		if d < 0 {
			errs = append(errs, s.Fault(path, "must not be negative; 0 means no limit"))
		}
	}
	if r.AcceptBacklog <= 0 {
		errs = append(errs, s.Fault("rpc.accept_backlog", "must be above 0"))
	}
	return errors.Join(errs...)
}

// mux returns the settings of multiplexed connections.
func (s *Settings) mux() wire.Mux {
	r := &s.RPC
	return wire.Mux{AcceptBacklog: r.AcceptBacklog, KeepAlive: r.KeepAliveInterval, WriteTimeout: r.ConnectionWriteTimeout,
		OpenTimeout: unbounded(r.StreamOpenTimeout), CloseTimeout: unbounded(r.StreamCloseTimeout)}
}

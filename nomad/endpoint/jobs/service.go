// Package jobs answers the RPC methods of jobs.
//
//	request ─▶ complete (defaults, rights) ─▶ validate ─▶ fits (namespace, pool, limits) ─▶ log
//
// A job is never stored exactly as submitted. Defaults are set, and fields that only servers may
// set are cleared. Constraints are added for what its tasks require of a node. Plan runs the
// scheduler on a snapshot and writes nothing. Check validates a job without a server.
package jobs

import (
	"cmp"
	"context"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/endpoint/rootkeys"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Config holds the limits of jobs. Zero values mean the defaults.
type Config struct {
	DefaultPriority int // 50
	MaxPriority     int // 100
	MaxCount        int // 50,000 allocations
	MaxSource       int // 1,000,000 bytes of job source
	Spiffe          Spiffe
}

// Periodic launches the children of periodic jobs.
type Periodic interface {
	Force(ctx context.Context, ns, id string) (*message.PeriodicForceResponse, error)
}

// Service handles the RPC methods of jobs.
type Service struct {
	*handler.Core
	cfg      Config
	keys     *rootkeys.Service
	periodic Periodic
}

// New returns a Service. It sets the defaults of the config.
func New(core *handler.Core, keys *rootkeys.Service, periodic Periodic, cfg Config) *Service {
	cfg.DefaultPriority = cmp.Or(cfg.DefaultPriority, nomad.JobDefaultPriority)
	cfg.MaxPriority = cmp.Or(cfg.MaxPriority, nomad.JobDefaultMaxPriority)
	cfg.MaxCount = cmp.Or(cfg.MaxCount, nomad.JobDefaultMaxCount)
	cfg.MaxSource = cmp.Or(cfg.MaxSource, defaultMaxSource)
	return &Service{Core: core, cfg: cfg, keys: keys, periodic: periodic}
}

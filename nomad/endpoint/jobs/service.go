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

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/endpoint/rootkeys"
)

// Config holds the limits of jobs. Zero values mean the defaults.
type Config struct {
	DefaultPriority int // 50
	MaxPriority     int // 100
	MaxCount        int // 50,000 allocations
	MaxSource       int // 1,000,000 bytes of job source
}

// Service handles the RPC methods of jobs.
type Service struct {
	*handler.Core
	cfg  Config
	keys *rootkeys.Service
}

// New returns a Service. It sets the defaults of the config.
func New(core *handler.Core, keys *rootkeys.Service, cfg Config) *Service {
	cfg.DefaultPriority = cmp.Or(cfg.DefaultPriority, nomad.JobDefaultPriority)
	cfg.MaxPriority = cmp.Or(cfg.MaxPriority, nomad.JobDefaultMaxPriority)
	cfg.MaxCount = cmp.Or(cfg.MaxCount, nomad.JobDefaultMaxCount)
	cfg.MaxSource = cmp.Or(cfg.MaxSource, defaultMaxSource)
	return &Service{Core: core, cfg: cfg, keys: keys}
}

// Package jobs answers the RPC methods of jobs.
//
//	request ─▶ complete (defaults, rights in the namespace) ─▶ nomad/admission ─▶ log
//
// A job is never stored exactly as submitted. Defaults are set, and fields that only servers may
// set are cleared. Constraints are added for what its tasks require of a node. Plan runs the
// scheduler on a snapshot and writes nothing.
package jobs

import (
	"cmp"
	"context"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/endpoint/rootkeys"
	"github.com/open-nomad/open-nomad/nomad/mesh"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Config holds the defaults and limits of jobs. Zero values mean the defaults.
type Config struct {
	Admission       *admission.Admitter // required
	DefaultPriority int                 // 50
	MaxSource       int                 // 1,000,000 bytes of job source
	Gateways        Gateways            // nil refuses jobs with gateways that need a configuration
}

// Gateways writes the configuration of the gateways of a job to Consul.
type Gateways interface {
	// Write makes no request for a job without such gateways.
	Write(ctx context.Context, job *nomad.Job) error
}

// Periodic launches the children of periodic jobs.
type Periodic interface {
	// Force launches a child of a job of the snapshot for the asker.
	Force(ctx context.Context, snap *state.Snapshot, who admission.Asker, job *nomad.Job) (*message.PeriodicForceResponse, error)
}

// Service handles the RPC methods of jobs.
type Service struct {
	*handler.Core
	cfg       Config
	admission *admission.Admitter
	keys      *rootkeys.Service
	periodic  Periodic
}

// New returns a Service. It sets the defaults of the config.
func New(core *handler.Core, keys *rootkeys.Service, periodic Periodic, cfg Config) *Service {
	cfg.DefaultPriority = cmp.Or(cfg.DefaultPriority, nomad.JobDefaultPriority)
	cfg.MaxSource = cmp.Or(cfg.MaxSource, defaultMaxSource)
	if cfg.Gateways == nil {
		cfg.Gateways = mesh.NewWriter(nil)
	}
	return &Service{Core: core, cfg: cfg, admission: cfg.Admission, keys: keys, periodic: periodic}
}

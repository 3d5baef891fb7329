// Package services answers the RPC methods of service registrations. The node of an allocation registers and removes
// the services of its tasks. Callers with the right read-job and all workloads can read them.
//
//	client ──Upsert──▶ checks of the allocation ──▶ batch ──▶ one log entry for all callers that wait
//
// The package does not check the health of services. A registration ends with a call of the node, or inside the write
// that ends the allocation (package state). The package starts no goroutine.
package services

import (
	"context"

	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Service handles the RPC methods of service registrations.
type Service struct {
	*handler.Core
	upserts  *handler.Batch[*catalog.Registration]
	versions versions // for Watch
}

// New returns a Service.
func New(core *handler.Core) *Service {
	return &Service{Core: core, upserts: handler.NewBatch(func(ctx context.Context, rows []*catalog.Registration) (uint64, error) {
		return core.Apply(ctx, message.ServiceRegistrationUpsertRequestType, &message.ServiceRegistrationUpsertRequest{Services: rows})
	})}
}

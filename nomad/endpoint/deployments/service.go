// Package deployments answers the RPC methods of deployments. It checks the caller and that the
// deployment is active; nomad/deploy makes the change.
package deployments

import (
	"context"

	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Changer changes deployments on request of an operator.
type Changer interface {
	Fail(ctx context.Context, id string) (*message.DeploymentUpdateResponse, error)
	Pause(ctx context.Context, id string) (*message.DeploymentUpdateResponse, error)
	Resume(ctx context.Context, id string) (*message.DeploymentUpdateResponse, error)
	MultiRegion
	Promote(ctx context.Context, req *message.DeploymentPromoteRequest) (*message.DeploymentUpdateResponse, error)
	SetAllocHealth(ctx context.Context, req *message.DeploymentAllocHealthRequest) (*message.DeploymentUpdateResponse, error)
}

// MultiRegion changes deployments that wait for other regions, on request of an operator.
type MultiRegion interface {
	Unblock(ctx context.Context, id string) (*message.DeploymentUpdateResponse, error)
	Cancel(ctx context.Context, id string) (*message.DeploymentUpdateResponse, error)
	Start(ctx context.Context, id string) (*message.DeploymentUpdateResponse, error)
}

// Service handles the RPC methods of deployments.
type Service struct {
	*handler.Core
	changer Changer
}

// New returns a Service.
func New(core *handler.Core, changer Changer) *Service { return &Service{Core: core, changer: changer} }

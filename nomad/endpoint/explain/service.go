// Package explain answers ACL.Explain: may a token, role, policy or workload do something, and
// which rule of which policy decides it. It also lists everybody who may.
//
//	request ─▶ question: the rights that it needs ─▶ subject: its rights ─▶ decision and rules
//
// Nomad 2.0 does not have this method. A caller may ask about itself; only management asks about
// others. The package only reads, and never grants anything: the decisions come from the package
// acl.
package explain

import (
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Service handles ACL.Explain.
type Service struct {
	*handler.Core
	methods func() []rpc.Method
}

// New returns a Service. Methods returns the method table, for questions about a method.
func New(core *handler.Core, methods func() []rpc.Method) *Service {
	return &Service{Core: core, methods: methods}
}

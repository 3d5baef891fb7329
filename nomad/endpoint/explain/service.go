// Package explain answers ACL.Explain. The response contains whether a token, role, policy or
// workload may do something, and the policy rule that decides it. It can also list every subject
// that may do it.
//
//	request ─▶ question: the required rights ─▶ subject: its rights ─▶ decision and rules
//
// Nomad 2.0 does not have this method. A caller may ask about itself. Questions about
// others require a management token. The package only reads state. The decisions are those of
// package acl. It starts no goroutine.
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

package endpoint

import (
	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// serviceMethods returns the methods of service registrations. Every workload may find services.
func (s *Service) serviceMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("ServiceRegistration.Upsert", rpc.NodeOnly, rpc.Leader, s.services.Upsert),
		rpc.Handle("ServiceRegistration.DeleteByID", rpc.Token, rpc.Leader, s.services.DeleteByID).
			Needs(inNS(acl.SubmitJob, acl.DeleteServiceRegistration).Or(rpc.AnyNode)),
		rpc.Handle("ServiceRegistration.List", rpc.Token, rpc.Leader, s.services.List).
			Needs(rpc.InNamespace(acl.ReadJob).Or(rpc.AnyWorkload)),
		rpc.Handle("ServiceRegistration.GetService", rpc.Token, rpc.Leader, s.services.GetService).
			Needs(inNS(acl.ReadJob).Or(rpc.AnyWorkload)),
		rpc.Handle("ServiceRegistration.Instances", rpc.Token, rpc.Leader, s.services.Instances).
			Needs(rpc.InNamespace(acl.ReadJob).Or(rpc.AnyWorkload).Or(rpc.AnyNode)),
		rpc.Handle("ServiceRegistration.Watch", rpc.NodeOnly, rpc.Leader, s.services.Watch),
		rpc.Handle("Job.GetServiceRegistrations", rpc.Token, rpc.Leader, s.services.OfJob).Needs(inNS(acl.ReadJob)),
		rpc.Handle("Alloc.GetServiceRegistrations", rpc.Token, rpc.Leader, s.services.OfAlloc).
			Needs(rpc.On("the allocation", inNamespace(acl.ReadJob))),
	}
}

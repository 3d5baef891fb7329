package endpoint

import "github.com/open-nomad/open-nomad/nomad/rpc"

// spiffeMethods returns the methods of SPIFFE, which exist only in open-nomad. The bundle is public.
func (s *Service) spiffeMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Spiffe.SignX509", rpc.NodeOnly, rpc.Leader, s.svids.SignX509),
		rpc.Handle("Spiffe.SignJWT", rpc.NodeOnly, rpc.Leader, s.svids.SignJWT),
		rpc.Handle("Spiffe.Bundle", rpc.Anonymous, rpc.Leader, s.svids.Bundle),
	}
}

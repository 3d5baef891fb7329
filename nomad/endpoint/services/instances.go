package services

import (
	"context"
	"iter"
	"net"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/page"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Instances returns a page of the registrations of one service, or of all, with their nodes. For the namespace "*" it
// lists those in namespaces with the read-job right; a node gets all. A filter sees the registration only. A request that waits ends with a change of a
// registration: a change of a node alone does not end it.
func (s *Service) Instances(ctx context.Context, c *rpc.Call,
	req *message.ServiceInstancesRequest) (*message.ServiceInstancesResponse, error) {
	may := handler.Grants(c, acl.ReadJob)
	if authz.NodeID(c.Identity) != "" {
		may = func(string) bool { return true }
	}
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.ServiceInstancesResponse) error {
			out.Index = snap.TableIndex(state.TableRegistrations)
			found, next, err := page.List[*catalog.Registration]{Opts: &req.QueryOptions, Order: page.ByNamespace, At: position,
				Keep: func(r *catalog.Registration) bool {
					return (req.NodeID == "" || r.NodeID == req.NodeID) && (req.ServiceName == "" || r.ServiceName == req.ServiceName)
				},
			}.Page(selected(snap, ws, req, may))
			if err != nil {
				return err
			}
			out.Instances, out.NextToken = page.Each(found, nodesOf(snap).instance), next
			return nil
		})
}

// selected returns the registrations that a request may select, by the index that reads the fewest.
func selected(snap *state.Snapshot, ws memdb.WatchSet, req *message.ServiceInstancesRequest,
	may func(namespace string) bool) iter.Seq[*catalog.Registration] {
	ns := handler.NamespaceOf(req.Namespace)
	switch {
	case ns == nomad.AllNamespacesSentinel:
		all := snap.Registrations(ws)
		if req.NodeID != "" {
			all = snap.RegistrationsByNode(ws, req.NodeID)
		}
		return page.Only(all, func(r *catalog.Registration) bool { return may(r.Namespace) })
	case req.ServiceName != "":
		return snap.RegistrationsByName(ws, ns, req.ServiceName)
	case req.NodeID != "":
		return page.Only(snap.RegistrationsByNode(ws, req.NodeID), func(r *catalog.Registration) bool { return r.Namespace == ns })
	}
	return snap.RegistrationsIn(ws, ns)
}

// nodes finds the nodes of registrations in a snapshot, each once.
type nodes struct {
	snap *state.Snapshot
	seen map[string]place
}

// place is the part of a node that an instance has.
type place struct{ name, address string }

func nodesOf(snap *state.Snapshot) nodes { return nodes{snap: snap, seen: map[string]place{}} }

// of returns the name and the address of a node. Both are "" if the node does not exist.
func (n nodes) of(id string) place {
	p, seen := n.seen[id]
	if !seen {
		if node := n.snap.Node(nil, id); node != nil {
			p = place{node.Name, address(node)}
		}
		n.seen[id] = p
	}
	return p
}

// instance returns a copy of a registration with its node.
func (n nodes) instance(r *catalog.Registration) *catalog.Instance {
	p := n.of(r.NodeID)
	return &catalog.Instance{Registration: *r.Copy(), NodeName: p.name, NodeAddress: p.address}
}

// address returns the address at which others reach a node, or "".
func address(n *nomad.Node) string {
	if ip := n.Attributes["unique.network.ip-address"]; ip != "" {
		return ip
	}
	host, _, err := net.SplitHostPort(n.HTTPAddr)
	if err != nil {
		return ""
	}
	return host
}

package services

import (
	"context"
	"iter"
	"maps"
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
// lists those in namespaces with the read-job right; a node gets all. A filter sees the registration only. A request that
// waits ends with a change of a registration. If it names a service or a node, a change of a node of the page ends it too.
// Only callers that may read nodes get their metadata.
func (s *Service) Instances(ctx context.Context, c *rpc.Call,
	req *message.ServiceInstancesRequest) (*message.ServiceInstancesResponse, error) {
	may := handler.Grants(c, acl.ReadJob)
	if authz.NodeID(c.Identity) != "" {
		may = func(string) bool { return true }
	}
	meta := c.Access.Allows(acl.ToRead(acl.Nodes))
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
			nodes := nodesOf(snap)
			few := req.ServiceName != "" || req.NodeID != ""
			if few {
				nodes.ws = ws
			}
			nodes.meta = meta
			out.Instances, out.NextToken = page.Each(found, nodes.instance), next
			if few {
				out.Index = max(out.Index, nodes.index())
			}
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
	ws   memdb.WatchSet // watches the nodes, unless it is nil
	meta bool           // instances have the metadata of their node
}

// place is the part of a node that an instance has. That of a node that does not exist has an index only.
type place struct {
	name, address, status string
	meta                  map[string]string
	index                 uint64
}

func nodesOf(snap *state.Snapshot) nodes { return nodes{snap: snap, seen: map[string]place{}} }

// of returns the place of a node.
func (n nodes) of(id string) place {
	p, seen := n.seen[id]
	if !seen {
		p.index = n.snap.TableIndex(state.TableNodes) // not before the node was removed
		if node := n.snap.Node(n.ws, id); node != nil {
			p = place{name: node.Name, address: address(node), status: node.Status, index: node.ModifyIndex}
			if n.meta {
				p.meta = node.Meta
			}
		}
		n.seen[id] = p
	}
	return p
}

// index returns the index of the latest change of a node that was looked up. It never becomes lower: of a node that does
// not exist, it is that of the table.
func (n nodes) index() (latest uint64) {
	for _, p := range n.seen {
		latest = max(latest, p.index)
	}
	return latest
}

// instance returns a copy of a registration with its node.
func (n nodes) instance(r *catalog.Registration) *catalog.Instance {
	p := n.of(r.NodeID)
	return &catalog.Instance{Registration: *r.Copy(), NodeName: p.name, NodeAddress: p.address, NodeStatus: p.status,
		NodeMeta: maps.Clone(p.meta)}
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

package services

import (
	"context"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// The limits of a request and of a reply of Watch.
const (
	maxWatched       = 4096 // services
	maxWatchedName   = 63
	maxNamespaceName = 128
	maxVersion       = 64
	// maxFine is the maximum number of services that are watched one by one. More watch the complete table, because each
	// watched service costs memory.
	maxFine = 256
	// enoughInstances is the number of instances from which on a reply has no further service. The next call returns the
	// remaining services at once.
	enoughInstances = 10_000
)

// Watch returns the services whose version differs from that of the request, with all their registrations. If no version
// differs, it waits. Each node may watch all services, as each workload may find them.
//
// A version includes the names and the addresses of the nodes. A change of a node alone does not end the wait, but the
// next call returns it.
func (s *Service) Watch(ctx context.Context, _ *rpc.Call, req *message.ServiceWatchRequest) (*message.ServiceWatchResponse, error) {
	if err := checkWatched(req.Services); err != nil {
		return nil, err
	}
	return handler.ReadUntil(ctx, s.Core, &req.QueryOptions, func(snap *state.Snapshot, ws memdb.WatchSet, out *message.ServiceWatchResponse) (bool, error) {
		out.Index = max(snap.TableIndex(state.TableRegistrations), 1)
		out.Services = s.changed(snap, ws, req.Services)
		return len(out.Services) > 0, nil
	})
}

// checkWatched returns an error unless the services are valid and different from each other.
func checkWatched(all []message.ServiceVersion) error {
	if n := len(all); n == 0 || n > maxWatched {
		return apierror.Errorf(400, "%d services in one request, want 1 to %d", n, maxWatched)
	}
	seen := make(map[service]bool, len(all))
	for _, v := range all {
		k := service{handler.NamespaceOf(v.Namespace), v.Name}
		switch {
		case v.Name == "" || len(v.Name) > maxWatchedName:
			return apierror.Errorf(400, "invalid service name %.80q: it must have 1 to %d bytes", v.Name, maxWatchedName)
		case len(v.Namespace) > maxNamespaceName:
			return apierror.Errorf(400, "invalid namespace %.150q of service %q: it has more than %d bytes", v.Namespace, v.Name, maxNamespaceName)
		case len(v.Version) > maxVersion:
			return apierror.Errorf(400, "invalid version of service %q: it has more than %d bytes", v.Name, maxVersion)
		case seen[k]:
			return apierror.Errorf(400, "duplicate service %q of namespace %q", k.name, k.namespace)
		}
		seen[k] = true
	}
	return nil
}

// changed returns the services with another version, and adds to ws what changes with the versions.
func (s *Service) changed(snap *state.Snapshot, ws memdb.WatchSet, watched []message.ServiceVersion) []*message.ServiceState {
	if len(watched) > maxFine {
		snap.Registrations(ws) // watches the table
		ws = nil
	}
	var out []*message.ServiceState
	all, nodes := 0, nodesOf(snap)
	r := reader{snap: snap, nodes: nodes, at: momentOf(snap), kept: &s.versions}
	for _, v := range watched {
		of := service{handler.NamespaceOf(v.Namespace), v.Name}
		is := r.version(ws, of)
		if is == v.Version {
			continue
		}
		one := &message.ServiceState{Namespace: of.namespace, Name: of.name, Version: is}
		for r := range snap.RegistrationsByName(nil, of.namespace, of.name) {
			one.Instances = append(one.Instances, nodes.instance(r))
		}
		out = append(out, one)
		if all += len(one.Instances); all >= enoughInstances {
			break
		}
	}
	return out
}

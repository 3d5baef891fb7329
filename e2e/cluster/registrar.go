package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// RegistrarDatacenter is the datacenter of a Registrar. Only jobs that name it are placed there.
const RegistrarDatacenter = "registrar"

// Registrar is a node that gets allocations and registers their services by RPC. It runs nothing and sends no
// heartbeats, so the servers need a long heartbeat_grace.
type Registrar struct {
	pool  *rpc.Pool
	addr  string
	node  *nomad.Node
	token string
}

// NewRegistrar joins a node through the server with the RPC address. Its driver is mock_driver.
func NewRegistrar(ctx context.Context, addr string) (*Registrar, error) {
	r := &Registrar{pool: rpc.NewPool(rpc.PoolConfig{Region: "global"}), addr: addr, node: &nomad.Node{
		ID: nomad.NewID(), SecretID: nomad.NewID(), Name: "registrar", Datacenter: RegistrarDatacenter, NodePool: nomad.NodePoolDefault,
		Attributes: map[string]string{
			"nomad.version":           "2.0.6",
			"nomad.service_discovery": "true",
			"kernel.name":             "linux",
			"driver.mock_driver":      "1",
		},
		Drivers: map[string]*nomad.DriverInfo{"mock_driver": {Detected: true, Healthy: true}},
		NodeResources: &nomad.NodeResources{
			Cpu:            nomad.LegacyNodeCpuResources{CpuShares: 40000, TotalCpuCores: 4},
			Memory:         nomad.NodeMemoryResources{MemoryMB: 1 << 20},
			Disk:           nomad.NodeDiskResources{DiskMB: 1 << 20},
			MinDynamicPort: 20000,
			MaxDynamicPort: 32000,
		},
		Status: nomad.NodeStatusInit,
	}}
	var out message.NodeUpdateResponse
	if err := r.call(ctx, "Node.Register", &message.NodeRegisterRequest{Node: r.node, WriteRequest: r.write()}, &out); err != nil {
		return nil, err
	}
	r.token = *out.SignedIdentity
	return r, r.call(ctx, "Node.UpdateStatus", &message.NodeUpdateStatusRequest{
		NodeID:       r.node.ID,
		Status:       nomad.NodeStatusReady,
		WriteRequest: r.write(),
	}, &out)
}

// Close closes the connections.
func (r *Registrar) Close() error { return r.pool.Close() }

// Allocs waits for allocations and returns them.
func (r *Registrar) Allocs(ctx context.Context, count int) ([]*nomad.Allocation, error) {
	var list message.NodeClientAllocsResponse
	for len(list.Allocs) < count {
		req := &message.NodeSpecificRequest{NodeID: r.node.ID, SecretID: r.node.SecretID,
			QueryOptions: message.QueryOptions{Region: "global", AuthToken: r.token, MinQueryIndex: list.Index, MaxQueryTime: 5 * time.Second}}
		if err := r.call(ctx, "Node.GetClientAllocs", req, &list); err != nil {
			return nil, err
		}
	}
	var full message.AllocsGetResponse
	err := r.call(ctx, "Alloc.GetAllocs", &message.AllocsGetRequest{AllocIDs: slices.Collect(maps.Keys(list.Allocs)),
		QueryOptions: message.QueryOptions{Region: "global", AuthToken: r.token}}, &full)
	return full.Allocs, err
}

// Register registers a service of an allocation.
func (r *Registrar) Register(ctx context.Context, a *nomad.Allocation, service, address string, port int, tags ...string) error {
	row := &catalog.Registration{
		ID:          catalog.ID(a.ID, catalog.GroupWorkload(a.TaskGroup), service, fmt.Sprint(port)),
		ServiceName: service,
		Namespace:   a.Namespace,
		NodeID:      r.node.ID,
		Datacenter:  r.node.Datacenter,
		JobID:       a.JobID,
		AllocID:     a.ID,
		Tags:        tags,
		Address:     address,
		Port:        port,
	}
	req := &message.ServiceRegistrationUpsertRequest{Services: []*catalog.Registration{row}, WriteRequest: r.write()}
	return r.call(ctx, "ServiceRegistration.Upsert", req, &message.ServiceRegistrationUpsertResponse{})
}

// Report reports the client status of allocations.
func (r *Registrar) Report(ctx context.Context, status string, allocs ...*nomad.Allocation) error {
	req := &message.AllocUpdateRequest{WriteRequest: r.write()}
	for _, a := range allocs {
		req.Alloc = append(req.Alloc, &nomad.Allocation{ID: a.ID, NodeID: r.node.ID, ClientStatus: status})
	}
	return r.call(ctx, "Node.UpdateAlloc", req, &message.GenericResponse{})
}

func (r *Registrar) write() message.WriteRequest {
	return message.WriteRequest{Region: "global", AuthToken: r.token}
}

func (r *Registrar) call(ctx context.Context, method string, req, resp any) error {
	if err := r.pool.Call(ctx, r.addr, method, req, resp); err != nil {
		return fmt.Errorf("registrar: %s: %w", method, err)
	}
	return nil
}

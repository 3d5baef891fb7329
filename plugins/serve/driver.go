package serve

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/hclspec"
	"github.com/open-nomad/open-nomad/plugins/proto"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

// driver is the service of a task driver.
type driver struct {
	proto.UnimplementedDriverServer
	drivers.Driver
	stop func(context.Context) error
	node *node

	mu   sync.Mutex
	envs map[string]map[string]string // of the tasks, for sessions, which get no environment from the client
}

func (d *driver) remember(id string, cfg *proto.TaskConfig) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.envs[id] = wire.Environment(cfg)
}

func (d *driver) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.envs, id)
}

// env returns the environment of a task. The caller owns the map.
func (d *driver) env(id string) map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.envs[id])
}

// Init implements proto.DriverServer.
func (d *driver) Init(context.Context, *proto.InitRequest) (*proto.InitResponse, error) {
	return &proto.InitResponse{}, nil
}

// TaskConfigSchema implements proto.DriverServer.
func (d *driver) TaskConfigSchema(context.Context, *proto.TaskConfigSchemaRequest) (*proto.TaskConfigSchemaResponse, error) {
	spec, err := hclspec.Encode(d.TaskSpec())
	return &proto.TaskConfigSchemaResponse{Spec: spec}, wire.EncodeError(err)
}

// Capabilities implements proto.DriverServer.
func (d *driver) Capabilities(context.Context, *proto.CapabilitiesRequest) (*proto.CapabilitiesResponse, error) {
	return &proto.CapabilitiesResponse{Capabilities: wire.EncodeCapabilities(d.Driver.Capabilities())}, nil
}

// Fingerprint implements proto.DriverServer.
func (d *driver) Fingerprint(_ *proto.FingerprintRequest, out grpc.ServerStreamingServer[proto.FingerprintResponse]) error {
	for f := range d.Driver.Fingerprint(out.Context()) {
		if err := out.Send(wire.EncodeFingerprint(f)); err != nil {
			return err
		}
	}
	return nil
}

// RecoverTask implements proto.DriverServer.
func (d *driver) RecoverTask(ctx context.Context, req *proto.RecoverTaskRequest) (*proto.RecoverTaskResponse, error) {
	h := req.GetHandle()
	id := req.GetTaskId()
	if id == "" {
		id = h.GetConfig().GetId()
	}
	err := d.Driver.RecoverTask(ctx,
		&drivers.TaskHandle{Driver: d.Name(), Version: int(h.GetVersion()), TaskID: id, State: h.GetDriverState()})
	if err == nil {
		d.remember(id, h.GetConfig())
	}
	return &proto.RecoverTaskResponse{}, wire.EncodeError(err)
}

// StartTask implements proto.DriverServer.
func (d *driver) StartTask(ctx context.Context, req *proto.StartTaskRequest) (*proto.StartTaskResponse, error) {
	cfg, err := wire.DecodeTask(req.GetTask(), d.TaskSpec(), d.node.get())
	if err != nil {
		return nil, wire.EncodeError(err)
	}
	if cfg.DNS != nil && !d.Driver.Capabilities().DNS {
		return nil, wire.EncodeError(fmt.Errorf("driver %q as an external program does not support the dns block of a network", d.Name()))
	}
	// Not cancelled with the call: a task that started despite a cancellation would have no owner.
	h, err := d.Driver.StartTask(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return nil, wire.EncodeError(err)
	}
	d.remember(cfg.ID, req.GetTask())
	return &proto.StartTaskResponse{NetworkOverride: wire.EncodeNetwork(h.Network),
		Handle: &proto.TaskHandle{Version: int32(h.Version), Config: req.GetTask(), State: proto.TaskState_RUNNING, DriverState: h.State}}, nil
}

// WaitTask implements proto.DriverServer.
func (d *driver) WaitTask(ctx context.Context, req *proto.WaitTaskRequest) (*proto.WaitTaskResponse, error) {
	exit, err := d.Driver.WaitTask(ctx, req.GetTaskId())
	if err != nil {
		return nil, wire.EncodeError(err)
	}
	result, text := wire.EncodeExit(exit)
	return &proto.WaitTaskResponse{Result: result, Err: text}, nil
}

// StopTask implements proto.DriverServer.
func (d *driver) StopTask(ctx context.Context, req *proto.StopTaskRequest) (*proto.StopTaskResponse, error) {
	err := d.Driver.StopTask(ctx, req.GetTaskId(), wire.DecodeDuration(req.GetTimeout()), req.GetSignal())
	return &proto.StopTaskResponse{}, wire.EncodeError(err)
}

// DestroyTask implements proto.DriverServer.
func (d *driver) DestroyTask(_ context.Context, req *proto.DestroyTaskRequest) (*proto.DestroyTaskResponse, error) {
	err := d.Driver.DestroyTask(req.GetTaskId(), req.GetForce())
	if err == nil {
		d.forget(req.GetTaskId())
	}
	return &proto.DestroyTaskResponse{}, wire.EncodeError(err)
}

// InspectTask implements proto.DriverServer.
func (d *driver) InspectTask(_ context.Context, req *proto.InspectTaskRequest) (*proto.InspectTaskResponse, error) {
	s, err := d.Driver.InspectTask(req.GetTaskId())
	if err != nil {
		return nil, wire.EncodeError(err)
	}
	task, more := wire.EncodeStatus(s)
	return &proto.InspectTaskResponse{Task: task, Driver: more, NetworkOverride: wire.EncodeNetwork(s.Network)}, nil
}

// SignalTask implements proto.DriverServer.
func (d *driver) SignalTask(_ context.Context, req *proto.SignalTaskRequest) (*proto.SignalTaskResponse, error) {
	return &proto.SignalTaskResponse{}, wire.EncodeError(d.Driver.SignalTask(req.GetTaskId(), req.GetSignal()))
}

// TaskStats implements proto.DriverServer.
func (d *driver) TaskStats(req *proto.TaskStatsRequest, out grpc.ServerStreamingServer[proto.TaskStatsResponse]) error {
	ch, err := d.Driver.TaskStats(out.Context(), req.GetTaskId(), wire.DecodeDuration(req.GetCollectionInterval()))
	if err != nil {
		return wire.EncodeError(err)
	}
	for u := range ch {
		if err := out.Send(&proto.TaskStatsResponse{Stats: wire.EncodeStats(req.GetTaskId(), u)}); err != nil {
			return err
		}
	}
	return nil
}

// TaskEvents implements proto.DriverServer. The events of a driver that reports none never come.
func (d *driver) TaskEvents(_ *proto.TaskEventsRequest, out grpc.ServerStreamingServer[proto.DriverTaskEvent]) error {
	r, ok := d.Driver.(drivers.Reporter)
	if !ok {
		<-out.Context().Done()
		return nil
	}
	ctx, cancel := context.WithCancelCause(out.Context())
	defer cancel(nil)
	events := make(chan *proto.DriverTaskEvent, eventBuffer)
	go func() {
		cancel(r.Report(ctx, func(e *drivers.TaskEvent) {
			select {
			case events <- wire.EncodeEvent(e):
			default: // a client that does not read loses events, and blocks no task
			}
		}))
	}()
	for {
		select {
		case <-ctx.Done():
			return wire.EncodeError(context.Cause(ctx))
		case e := <-events:
			if err := out.Send(e); err != nil {
				return err
			}
		}
	}
}

// eventBuffer is how many events wait for a client.
const eventBuffer = 256

// Shutdown implements proto.DriverServer.
func (d *driver) Shutdown(ctx context.Context, _ *proto.ShutdownRequest) (*proto.ShutdownResponse, error) {
	if d.stop == nil {
		return &proto.ShutdownResponse{}, nil
	}
	return &proto.ShutdownResponse{}, wire.EncodeError(d.stop(ctx))
}

// CreateNetwork implements proto.DriverServer.
func (d *driver) CreateNetwork(ctx context.Context, req *proto.CreateNetworkRequest) (*proto.CreateNetworkResponse, error) {
	c, ok := d.Driver.(drivers.NetworkCreator)
	if !ok {
		return nil, errNoNetworks
	}
	n, err := c.CreateNetwork(ctx, req.GetAllocId(), req.GetHostname())
	return &proto.CreateNetworkResponse{IsolationSpec: wire.EncodeGroupNetwork(n), Created: err == nil}, wire.EncodeError(err)
}

// DestroyNetwork implements proto.DriverServer.
func (d *driver) DestroyNetwork(ctx context.Context, req *proto.DestroyNetworkRequest) (*proto.DestroyNetworkResponse, error) {
	c, ok := d.Driver.(drivers.NetworkCreator)
	if !ok {
		return nil, errNoNetworks
	}
	err := c.DestroyNetwork(ctx, req.GetAllocId(), wire.DecodeGroupNetwork(req.GetIsolationSpec()))
	return &proto.DestroyNetworkResponse{}, wire.EncodeError(err)
}

var errNoNetworks = status.Error(codes.Unimplemented, "the driver creates no networks")

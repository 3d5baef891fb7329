package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"example.com/exampledriver/proto"
)

// decode decodes MessagePack: configurations, and the driver's own state.
func decode(raw []byte, into any) error {
	return codec.NewDecoderBytes(raw, &codec.MsgpackHandle{}).Decode(into)
}

func encode(v any) (raw []byte, err error) {
	err = codec.NewEncoderBytes(&raw, &codec.MsgpackHandle{}).Encode(v)
	return raw, err
}

// errNotFound has the text by which clients recognise a task that does not exist.
var errNotFound = errors.New("task not found for given id")

// driver is the service of the task driver.
type driver struct {
	proto.UnimplementedDriverServer

	mu     sync.Mutex
	config config
	tasks  map[string]*task
	events chan *proto.DriverTaskEvent
}

func newDriver() *driver {
	return &driver{tasks: map[string]*task{}, events: make(chan *proto.DriverTaskEvent, 100)}
}

func (d *driver) configure(c config) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.config = c
}

func (d *driver) task(id string) (*task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.tasks[id]; t != nil {
		return t, nil
	}
	return nil, errNotFound
}

func (d *driver) add(t *task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tasks[t.ID] = t
}

func (d *driver) TaskConfigSchema(context.Context, *proto.TaskConfigSchemaRequest) (*proto.TaskConfigSchemaResponse, error) {
	return &proto.TaskConfigSchemaResponse{Spec: object(map[string]*proto.Spec{
		"command": attr("string", true), "args": attr("list(string)", false), "address": attr("string", false),
	})}, nil
}

func (d *driver) Capabilities(context.Context, *proto.CapabilitiesRequest) (*proto.CapabilitiesResponse, error) {
	return &proto.CapabilitiesResponse{Capabilities: &proto.DriverCapabilities{
		SendSignals: true, Exec: true, FsIsolation: proto.DriverCapabilities_NONE, MountConfigs: proto.DriverCapabilities_NO_MOUNTS,
		NetworkIsolationModes: []proto.NetworkIsolationSpec_NetworkIsolationMode{proto.NetworkIsolationSpec_HOST},
	}}, nil
}

// Fingerprint sends the health at once, and after that only changes. This driver has none.
func (d *driver) Fingerprint(_ *proto.FingerprintRequest, out grpc.ServerStreamingServer[proto.FingerprintResponse]) error {
	d.mu.Lock()
	greeting := d.config.Greeting
	d.mu.Unlock()
	text := func(s string) *proto.Attribute {
		return &proto.Attribute{Value: &proto.Attribute_StringVal{StringVal: s}}
	}
	err := out.Send(&proto.FingerprintResponse{Health: proto.FingerprintResponse_HEALTHY, HealthDescription: "Healthy",
		Attributes: map[string]*proto.Attribute{
			"driver.example":          text("1"),
			"driver.example.greeting": text(greeting),
			"kernel.name":             text("a driver cannot set this"),
		}})
	if err == nil {
		<-out.Context().Done()
	}
	return err
}

func (d *driver) StartTask(_ context.Context, req *proto.StartTaskRequest) (*proto.StartTaskResponse, error) {
	t, err := start(req.GetTask())
	if err != nil {
		return nil, status.Error(codes.Unknown, err.Error())
	}
	state, err := encode(t)
	if err != nil {
		return nil, err
	}
	d.add(t)
	d.tell(t, "the example driver has started the task")
	resp := &proto.StartTaskResponse{Handle: &proto.TaskHandle{
		Version:     1,
		Config:      req.GetTask(),
		State:       proto.TaskState_RUNNING,
		DriverState: state,
	}}
	if t.Address != "" {
		resp.NetworkOverride = &proto.NetworkOverride{Addr: t.Address, AutoAdvertise: true}
	}
	return resp, nil
}

// RecoverTask finds a task that an earlier process of this program has started.
func (d *driver) RecoverTask(_ context.Context, req *proto.RecoverTaskRequest) (*proto.RecoverTaskResponse, error) {
	t := &task{}
	if err := decode(req.GetHandle().GetDriverState(), t); err != nil {
		return nil, err
	}
	if err := t.find(); err != nil {
		return nil, err
	}
	d.add(t)
	return &proto.RecoverTaskResponse{}, nil
}

func (d *driver) WaitTask(ctx context.Context, req *proto.WaitTaskRequest) (*proto.WaitTaskResponse, error) {
	t, err := d.task(req.GetTaskId())
	if err != nil {
		return nil, err
	}
	result, err := t.wait(ctx)
	if err != nil {
		return nil, err
	}
	return &proto.WaitTaskResponse{Result: result}, nil
}

func (d *driver) StopTask(ctx context.Context, req *proto.StopTaskRequest) (*proto.StopTaskResponse, error) {
	t, err := d.task(req.GetTaskId())
	if err != nil {
		return nil, err
	}
	sig := syscall.SIGINT
	if name := req.GetSignal(); name != "" {
		if sig = signalOf(name); sig == 0 {
			return nil, errors.New("unknown signal " + name)
		}
	}
	t.signal(sig)
	waiting, cancel := context.WithTimeout(ctx, req.GetTimeout().AsDuration())
	defer cancel()
	if _, err := t.wait(waiting); err == nil {
		return &proto.StopTaskResponse{}, nil
	}
	t.signal(syscall.SIGKILL)
	_, err = t.wait(ctx)
	return &proto.StopTaskResponse{}, err
}

func (d *driver) SignalTask(_ context.Context, req *proto.SignalTaskRequest) (*proto.SignalTaskResponse, error) {
	t, err := d.task(req.GetTaskId())
	if err != nil {
		return nil, err
	}
	sig := signalOf(req.GetSignal())
	if sig == 0 {
		return nil, errors.New("unknown signal " + req.GetSignal())
	}
	return &proto.SignalTaskResponse{}, t.signal(sig)
}

func (d *driver) DestroyTask(ctx context.Context, req *proto.DestroyTaskRequest) (*proto.DestroyTaskResponse, error) {
	t, err := d.task(req.GetTaskId())
	if err != nil {
		return nil, err
	}
	if t.running() {
		if !req.GetForce() {
			return nil, errors.New("cannot destroy running task")
		}
		t.signal(syscall.SIGKILL)
		if _, err := t.wait(ctx); err != nil {
			return nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tasks, t.ID)
	return &proto.DestroyTaskResponse{}, os.RemoveAll(t.Dir)
}

func (d *driver) InspectTask(_ context.Context, req *proto.InspectTaskRequest) (*proto.InspectTaskResponse, error) {
	t, err := d.task(req.GetTaskId())
	if err != nil {
		return nil, err
	}
	s := &proto.TaskStatus{Id: t.ID, Name: t.Name, State: proto.TaskState_RUNNING, StartedAt: timestamppb.New(t.Started)}
	if result, err := t.exit(); err == nil {
		s.State, s.Result = proto.TaskState_EXITED, result
	}
	return &proto.InspectTaskResponse{
		Task:   s,
		Driver: &proto.TaskDriverStatus{Attributes: map[string]string{"pid": strconv.Itoa(t.pid())}},
	}, nil
}

// TaskStats sends the resident memory of the program of the task.
func (d *driver) TaskStats(req *proto.TaskStatsRequest, out grpc.ServerStreamingServer[proto.TaskStatsResponse]) error {
	t, err := d.task(req.GetTaskId())
	if err != nil {
		return err
	}
	every := time.NewTicker(max(req.GetCollectionInterval().AsDuration(), time.Millisecond))
	defer every.Stop()
	for t.running() {
		err := out.Send(&proto.TaskStatsResponse{Stats: &proto.TaskStats{
			Id:        t.ID,
			Timestamp: timestamppb.Now(),
			AggResourceUsage: &proto.TaskResourceUsage{
				Cpu:    &proto.CPUUsage{},
				Memory: &proto.MemoryUsage{Rss: t.resident(), MeasuredFields: []proto.MemoryUsage_Fields{proto.MemoryUsage_RSS}},
			},
		}})
		if err != nil {
			return err
		}
		select {
		case <-out.Context().Done():
			return nil
		case <-every.C:
		}
	}
	return nil
}

func (d *driver) tell(t *task, message string) {
	event := &proto.DriverTaskEvent{
		TaskId:      t.ID,
		TaskName:    t.Name,
		Timestamp:   timestamppb.Now(),
		Message:     message,
		Annotations: map[string]string{"pid": strconv.Itoa(t.pid())},
	}
	select {
	case d.events <- event:
	default: // nobody reads
	}
}

func (d *driver) TaskEvents(_ *proto.TaskEventsRequest, out grpc.ServerStreamingServer[proto.DriverTaskEvent]) error {
	for {
		select {
		case <-out.Context().Done():
			return nil
		case e := <-d.events:
			if err := out.Send(e); err != nil {
				return err
			}
		}
	}
}

// taskDir is the directory of a task, which follows from that of its allocation.
func taskDir(c *proto.TaskConfig) string { return filepath.Join(c.GetAllocDir(), c.GetName()) }

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"example.com/exampledevice/proto"
)

// The name of the devices. A job asks for "node", "example/node" or "example/node/char".
const vendor, kind, name = "example", "node", "char"

// devices is the service of the device plugin. The ID of an instance is the last part of its path.
type devices struct {
	proto.UnimplementedDevicePluginServer

	mu       sync.Mutex
	config   config
	reserved map[string]int64 // how often, by ID
}

func (d *devices) configure(c config) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.config, d.reserved = c, map[string]int64{}
}

// group returns the devices as they are now.
func (d *devices) group() *proto.DeviceGroup {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := &proto.DeviceGroup{Vendor: vendor, DeviceType: kind, DeviceName: name, Attributes: map[string]*proto.Attribute{
		"nodes": {Value: &proto.Attribute_IntVal{IntVal: int64(len(d.config.Nodes))}},
		"speed": {Value: &proto.Attribute_FloatVal{FloatVal: 1.5}, Unit: "GHz"},
	}}
	for _, path := range d.config.Nodes {
		i := &proto.DetectedDevice{ID: filepath.Base(path), Healthy: true}
		if _, err := os.Stat(path); err != nil {
			i.Healthy, i.HealthDescription = false, err.Error()
		}
		g.Devices = append(g.Devices, i)
	}
	return g
}

// Fingerprint sends the devices at once and after each change.
func (d *devices) Fingerprint(_ *proto.DeviceFingerprintRequest, out grpc.ServerStreamingServer[proto.DeviceFingerprintResponse]) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for last := ""; ; {
		g := d.group()
		if now := g.String(); now != last {
			last = now
			if err := out.Send(&proto.DeviceFingerprintResponse{DeviceGroup: []*proto.DeviceGroup{g}}); err != nil {
				return err
			}
		}
		select {
		case <-out.Context().Done():
			return nil
		case <-tick.C:
		}
	}
}

// Reserve returns what the task with these instances gets.
func (d *devices) Reserve(_ context.Context, req *proto.ReserveRequest) (*proto.ReserveResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	res := &proto.ContainerReservation{Envs: map[string]string{}}
	var paths []string
	for _, id := range req.GetDeviceIds() {
		i := slices.IndexFunc(d.config.Nodes, func(path string) bool { return filepath.Base(path) == id })
		if i < 0 {
			return nil, fmt.Errorf("unknown device %q", id)
		}
		path := d.config.Nodes[i]
		paths = append(paths, path)
		d.reserved[id]++
		res.Devices = append(res.Devices, &proto.ReservedDevice{TaskPath: path, HostPath: path, Permissions: "rw"})
	}
	res.Envs["EXAMPLE_NODES"] = strings.Join(paths, ",")
	if d.config.Share != "" {
		res.Mounts = append(res.Mounts, &proto.ReservedMount{TaskPath: d.config.Share, HostPath: d.config.Share, ReadOnly: true})
	}
	return &proto.ReserveResponse{ContainerRes: res}, nil
}

// Stats sends how often each instance was reserved.
func (d *devices) Stats(req *proto.StatsRequest, out grpc.ServerStreamingServer[proto.StatsResponse]) error {
	tick := time.NewTicker(max(req.GetCollectionInterval().AsDuration(), time.Second/10))
	defer tick.Stop()
	for {
		if err := out.Send(d.sample()); err != nil {
			return err
		}
		select {
		case <-out.Context().Done():
			return nil
		case <-tick.C:
		}
	}
}

func (d *devices) sample() *proto.StatsResponse {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := &proto.DeviceGroupStats{Vendor: vendor, Type: kind, Name: name, InstanceStats: map[string]*proto.DeviceStats{}}
	for _, path := range d.config.Nodes {
		value := &proto.StatValue{IntNumeratorVal: wrapperspb.Int64(d.reserved[filepath.Base(path)]), Unit: "times", Desc: "reservations"}
		g.InstanceStats[filepath.Base(path)] = &proto.DeviceStats{Summary: value, Timestamp: timestamppb.Now(),
			Stats: &proto.StatObject{Attributes: map[string]*proto.StatValue{"reservations": value}}}
	}
	return &proto.StatsResponse{Groups: []*proto.DeviceGroupStats{g}}
}

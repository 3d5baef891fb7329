package host

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/plugins/proto"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

// Limits of a plugin's streams.
const (
	devicesPause = time.Second            // between two lists of devices
	statsPause   = 100 * time.Millisecond // between two samples
)

// DevicePlugin is a device plugin: a program that finds devices of the node and reserves them for tasks.
type DevicePlugin struct{ instance }

func newDevicePlugin(p *program) *DevicePlugin {
	d := &DevicePlugin{newInstance(p, p.name, p.file, p.args)}
	d.begin = func(context.Context, *process) error { return nil }
	return d
}

// Name returns the name that the plugin has reported.
func (d *DevicePlugin) Name() string { return d.name }

// Watch keeps a process of the program running until ctx ends. It reports the devices at once and after
// each change. If the program has ended, it reports why, and nothing else until the program runs again.
// An error of report means that the list is invalid: then the program is started again. It calls report one at a time.
func (d *DevicePlugin) Watch(ctx context.Context, report func(*proto.DeviceFingerprintResponse, error) error) {
	d.keep(ctx, use{
		attach: func(context.Context, *process) error { return nil },
		watch:  func(ctx context.Context, p *process) error { return d.watch(ctx, p, report) },
	}, func(err error) { report(nil, err) }) //nolint:errcheck // there is no list
}

// watch passes on the lists of a process until their stream ends. The first must come within the time
// limit. A plugin that sends more than one list in devicesPause has to wait.
func (d *DevicePlugin) watch(ctx context.Context, p *process, report func(*proto.DeviceFingerprintResponse, error) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(d.cfg.Patience, func() {
		cancel(fmt.Errorf("the device plugin sent no devices within %v", d.cfg.Patience))
	})
	defer late.Stop()
	stream, err := p.device.Fingerprint(ctx, &proto.DeviceFingerprintRequest{})
	for err == nil {
		var m *proto.DeviceFingerprintResponse
		if m, err = stream.Recv(); err != nil {
			break
		}
		late.Stop()
		if wrong := report(m, nil); wrong != nil {
			return fmt.Errorf("the device plugin reports an invalid list of devices: %w", wrong)
		}
		backoff.Sleep(ctx, devicesPause) //nolint:errcheck // Recv returns the error
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return fmt.Errorf("the stream of devices ended: %w", wire.DecodeError(err))
}

// Reserve reserves instances, and returns what their task gets.
func (d *DevicePlugin) Reserve(ctx context.Context, ids []string) (*proto.ContainerReservation, error) {
	var m *proto.ReserveResponse
	err := d.brief(ctx, func(ctx context.Context, p *process) error {
		limited, cancel := context.WithTimeout(ctx, d.cfg.Patience)
		defer cancel()
		var err error
		m, err = p.device.Reserve(limited, &proto.ReserveRequest{DeviceIds: ids})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("device plugin %s: reserve %q: %w", d.name, ids, err)
	}
	return m.GetContainerRes(), nil
}

// Stats passes on samples of the devices until the stream ends or ctx ends. ok is false if the plugin has
// no statistics.
func (d *DevicePlugin) Stats(ctx context.Context, every time.Duration, take func(*proto.StatsResponse)) (ok bool, err error) {
	p, err := d.live(ctx)
	if err != nil {
		return true, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := p.device.Stats(ctx, &proto.StatsRequest{CollectionInterval: wire.EncodeDuration(every)})
	for err == nil {
		var m *proto.StatsResponse
		if m, err = stream.Recv(); err != nil {
			break
		}
		take(m)
		backoff.Sleep(ctx, statsPause) //nolint:errcheck // Recv returns the error
	}
	return !wire.IsUnimplemented(err), wire.DecodeError(err)
}

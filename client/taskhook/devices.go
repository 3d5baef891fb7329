package taskhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/open-nomad/open-nomad/client/devices"
	"github.com/open-nomad/open-nomad/client/hook"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Devices are the devices of the node (client/devices.Set).
type Devices interface {
	Reserve(ctx context.Context, a *nomad.AllocatedDeviceResource) (*devices.Reservation, error)
	StatsOf(assigned []*nomad.AllocatedDeviceResource) []*message.DeviceGroupStats
}

// devicesHook reserves the devices that the scheduler has assigned to a task. It does so once: later starts
// get the same reservation, also after a restart of the agent.
type devicesHook struct {
	devices Devices
	caps    drivers.Capabilities
}

func newDevicesHook(c Config) hook.Hook {
	return &devicesHook{devices: c.Devices, caps: c.Capabilities}
}

func (*devicesHook) Name() string { return "devices" }

func (h *devicesHook) Prestart(ctx context.Context, req *TaskPrestartRequest, resp *TaskPrestartResponse) error {
	if req.Resources == nil || len(req.Resources.Devices) == 0 || req.Running {
		return nil
	}
	if h.devices == nil {
		return setupFault(errors.New("this client has no device plugins"))
	}
	resp.Env = map[string]string{}
	for _, a := range req.Resources.Devices {
		r, err := h.devices.Reserve(ctx, a)
		if errors.Is(err, drivers.ErrNotRunning) || errors.Is(err, context.DeadlineExceeded) {
			return setupFault(fmt.Errorf("reserve devices: %w", err))
		}
		if err == nil {
			err = h.add(r, resp)
		}
		if err != nil {
			return &Fault{Type: nomad.TaskSetupFailure, Err: fmt.Errorf("reserve devices: %w", err)}
		}
	}
	resp.Done = true
	return nil
}

// add adds a reservation. A driver without any isolation of files needs no mounts and no device nodes for paths that
// are the same on the node. It cannot provide others.
func (h *devicesHook) add(r *devices.Reservation, resp *TaskPrestartResponse) error {
	maps.Copy(resp.Env, r.Env)
	if h.caps.Mounts || h.caps.FSIsolation != drivers.FSIsolationNone {
		if len(r.Mounts) > 0 && !h.caps.Mounts {
			return fmt.Errorf("the driver can't mount %s", r.Mounts[0].HostPath)
		}
		resp.Mounts, resp.Devices = append(resp.Mounts, r.Mounts...), append(resp.Devices, r.Devices...)
		return nil
	}
	for _, m := range r.Mounts {
		if err := sameFile(m.TaskPath, m.HostPath); err != nil {
			return err
		}
	}
	for _, d := range r.Devices {
		if err := sameFile(d.TaskPath, d.HostPath); err != nil {
			return err
		}
	}
	resp.Devices = append(resp.Devices, r.Devices...)
	return nil
}

// sameFile returns an error if a path of a task without isolation is not that of the node.
func sameFile(task, host string) error {
	a, err := os.Stat(task)
	if err == nil {
		var b os.FileInfo
		if b, err = os.Stat(host); err == nil && !os.SameFile(a, b) {
			err = errors.New("it is another file")
		}
	}
	if err != nil {
		return fmt.Errorf("the driver can't show %s at %s: the task sees the files of the node: %w", host, task, err)
	}
	return nil
}

package docker

import (
	"context"
	"fmt"

	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TaskProcess implements drivers.Processer with the first process of the container.
func (d *Driver) TaskProcess(ctx context.Context, id string) (int, error) {
	t, err := d.task(id)
	if err != nil {
		return 0, err
	}
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	found, err := d.api.ContainerInspect(ctx, t.container, client.ContainerInspectOptions{})
	if err != nil {
		return 0, fmt.Errorf("inspect container %s: %w", t.container, err)
	}
	s := found.Container.State
	if s == nil || !s.Running || s.Pid <= 0 {
		return 0, drivers.ErrTaskNotFound
	}
	return s.Pid, nil
}

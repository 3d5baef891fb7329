package docker

import (
	"context"
	"time"

	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Abandon ends the goroutines of the driver's tasks, as the end of an agent does. The containers
// continue.
func (d *Driver) Abandon() {
	d.mu.Lock()
	tasks := d.tasks
	d.tasks = map[string]*task{}
	d.mu.Unlock()
	for _, t := range tasks {
		t.cancel()
		t.pipes.Close()
		t.gone.Wait()
	}
}

// ShortenDangling sets times for the removal of containers that are below the minimum of the configuration.
func (d *Driver) ShortenDangling(period, grace time.Duration) {
	d.set.Dangling.Period, d.set.Dangling.Grace = period, grace
}

// MountSources mounts what a task mounts, and returns the sources by target, and a function that unmounts
// them.
func (d *Driver) MountSources(cfg *drivers.TaskConfig) (map[string]string, func() error, error) {
	o, err := config.DecodeTask(cfg.Config)
	if err != nil {
		return nil, nil, err
	}
	m, err := d.mountsOf(cfg, &o)
	if err != nil {
		return nil, nil, err
	}
	sources := map[string]string{}
	for _, b := range m.mounts {
		sources[b.Target] = b.Source
	}
	return sources, m.reserved.Close, nil
}

// Verify is the check of a started container.
func (d *Driver) Verify(ctx context.Context, cfg *drivers.TaskConfig, asked *client.ContainerCreateOptions, id string) (string, error) {
	_, lowered, err := d.verify(ctx, cfg, &request{asked, []string{"/x"}}, id)
	return lowered, err
}

// Stored is the check of a created container.
func (d *Driver) Stored(ctx context.Context, id string, asked *client.ContainerCreateOptions) error {
	return d.stored(ctx, id, asked)
}

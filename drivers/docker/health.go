package docker

import (
	"context"
	"fmt"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// minHealthInterval is the shortest time between two health checks of an image. Each check starts a process by the daemon,
// outside of the limits of the task. The daemon itself accepts 1 ms.
const minHealthInterval = time.Second

// setHealth bounds how often the daemon runs the health check of the image.
func (d *Driver) setHealth(ctx context.Context, c *container.Config) error {
	if c.Healthcheck != nil { // turned off
		return nil
	}
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	found, err := d.api.ImageInspect(ctx, c.Image)
	if err != nil {
		return &drivers.RecoverableError{Err: fmt.Errorf("find image %q: %w", c.Image, err)}
	}
	if found.Config != nil {
		c.Healthcheck = boundedHealth(found.Config.Healthcheck)
	}
	return nil
}

// boundedHealth returns what replaces fields of an image's health check, nil for nothing. The daemon takes the other fields
// from the image, and its own default for an interval of 0.
func boundedHealth(image *container.HealthConfig) *container.HealthConfig {
	if image == nil {
		return nil
	}
	out := &container.HealthConfig{}
	for _, f := range []struct {
		have time.Duration
		to   *time.Duration
	}{{image.Interval, &out.Interval}, {image.StartInterval, &out.StartInterval}} {
		if f.have != 0 && f.have < minHealthInterval {
			*f.to = minHealthInterval
		}
	}
	if out.Interval == 0 && out.StartInterval == 0 {
		return nil
	}
	return out
}

package host

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

// broken is the driver of a program that cannot be used. It has the name of the file and is
// unhealthy, so that the reason is in the node's status. Every call fails with the reason.
type broken struct {
	name string
	err  error
}

var _ drivers.Driver = (*broken)(nil)

func (b *broken) fail() error { return fmt.Errorf("driver %s cannot be used: %w", b.name, b.err) }

// Name implements drivers.Driver.
func (b *broken) Name() string { return b.name }

// ConfigSpec implements drivers.Driver.
func (b *broken) ConfigSpec() hcldec.Spec { return hcldec.ObjectSpec{} }

// SetConfig implements drivers.Driver.
func (b *broken) SetConfig(cty.Value) error { return nil }

// TaskSpec implements drivers.Driver.
func (b *broken) TaskSpec() hcldec.Spec { return hcldec.ObjectSpec{} }

// Capabilities implements drivers.Driver.
func (b *broken) Capabilities() drivers.Capabilities {
	return drivers.Capabilities{FSIsolation: drivers.FSIsolationNone}
}

// Fingerprint implements drivers.Driver.
func (b *broken) Fingerprint(ctx context.Context) <-chan drivers.Fingerprint {
	ch := make(chan drivers.Fingerprint, 1)
	ch <- drivers.Fingerprint{Health: drivers.HealthUnhealthy, Description: wire.Clip(b.err.Error())}
	context.AfterFunc(ctx, func() { close(ch) })
	return ch
}

// StartTask implements drivers.Driver.
func (b *broken) StartTask(context.Context, *drivers.TaskConfig) (*drivers.TaskHandle, error) {
	return nil, b.fail()
}

// RecoverTask implements drivers.Driver.
func (b *broken) RecoverTask(context.Context, *drivers.TaskHandle) error { return b.fail() }

// WaitTask implements drivers.Driver.
func (b *broken) WaitTask(context.Context, string) (*drivers.ExitResult, error) { return nil, b.fail() }

// StopTask implements drivers.Driver.
func (b *broken) StopTask(context.Context, string, time.Duration, string) error { return b.fail() }

// SignalTask implements drivers.Driver.
func (b *broken) SignalTask(string, string) error { return b.fail() }

// DestroyTask implements drivers.Driver.
func (b *broken) DestroyTask(string, bool) error { return b.fail() }

// InspectTask implements drivers.Driver.
func (b *broken) InspectTask(string) (*drivers.TaskStatus, error) { return nil, b.fail() }

// TaskStats implements drivers.Driver.
func (b *broken) TaskStats(context.Context, string, time.Duration) (<-chan *drivers.ResourceUsage, error) {
	return nil, b.fail()
}

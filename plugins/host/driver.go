package host

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hcldec"

	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/hclspec"
	"github.com/open-nomad/open-nomad/plugins/proto"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

// Driver is an external driver. It implements drivers.Driver, Execer, Reporter and NetworkCreator.
type Driver struct {
	instance
	logs Logs

	// instance.mu guards these.
	spec  hcldec.ObjectSpec // of a task
	caps  drivers.Capabilities
	tasks map[string]*proto.TaskHandle // nil during a start
	doubt map[string]time.Time         // first failure to recover a task
}

var (
	_ drivers.Driver         = (*Driver)(nil)
	_ drivers.Execer         = (*Driver)(nil)
	_ drivers.Reporter       = (*Driver)(nil)
	_ drivers.NetworkCreator = (*Driver)(nil)
)

func newDriver(p *program, name, label string, args []string) *Driver {
	d := &Driver{instance: newInstance(p, name, label, args), logs: p.host.cfg.Logs, spec: hcldec.ObjectSpec{},
		tasks: map[string]*proto.TaskHandle{}, doubt: map[string]time.Time{}}
	d.instance.begin = d.begin
	return d
}

// Name implements drivers.Driver.
func (d *Driver) Name() string { return d.name }

// TaskSpec implements drivers.Driver. It is empty until the program has been configured once.
func (d *Driver) TaskSpec() hcldec.Spec {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spec
}

// Capabilities implements drivers.Driver. They are none until the program has been configured once.
func (d *Driver) Capabilities() drivers.Capabilities {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.caps
}

// begin initialises a process, and reads the schema of tasks and the capabilities.
func (d *Driver) begin(ctx context.Context, p *process) error {
	if _, err := p.driver.Init(ctx, &proto.InitRequest{}); err != nil && !wire.IsUnimplemented(err) {
		return fmt.Errorf("initialise the driver: %w", wire.DecodeError(err))
	}
	schema, err := p.driver.TaskConfigSchema(ctx, &proto.TaskConfigSchemaRequest{})
	if err != nil {
		return fmt.Errorf("read the schema of tasks: %w", wire.DecodeError(err))
	}
	spec, err := hclspec.Decode(schema.GetSpec())
	if err != nil {
		return fmt.Errorf("schema of tasks: %w", err)
	}
	given, err := p.driver.Capabilities(ctx, &proto.CapabilitiesRequest{})
	if err != nil {
		return fmt.Errorf("read the capabilities of the driver: %w", wire.DecodeError(err))
	}
	caps, err := wire.DecodeCapabilities(given.GetCapabilities())
	if err != nil {
		return err
	}
	if caps.FSIsolation == drivers.FSIsolationChroot {
		return errChroot
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spec, d.caps = spec, caps
	return nil
}

// rename returns the attributes of the program as those of the instance. Others are dropped: a driver
// must not set attributes of the node.
func (d *Driver) rename(given map[string]string) map[string]string {
	out := map[string]string{}
	var dropped []string
	for key, value := range given {
		rest, ok := strings.CutPrefix(key, "driver."+d.program.name)
		if !ok || rest != "" && rest[0] != '.' {
			dropped = append(dropped, key)
			continue
		}
		out["driver."+d.name+rest] = value
	}
	if len(dropped) > 0 {
		d.log.Debug("attributes of the driver that do not begin with its name are dropped", "attributes", dropped)
	}
	return out
}
